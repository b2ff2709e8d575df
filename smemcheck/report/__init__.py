"""How a report is shown: one module a format, each with one function from Report to text."""
