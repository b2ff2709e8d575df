"""What is judged, not how: device tables and one module per family of rules."""
