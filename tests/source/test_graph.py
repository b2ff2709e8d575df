"""Questions about who leads to whom, answered as a library of graphs answers them."""

from smemcheck.source.graph import Graph


def graph(*edges):
    made = Graph()
    for start, end in edges:
        made.add_edge(start, end)
    return made


def test_nodes_keep_the_order_in_which_they_came():
    assert list(graph("ba", "cb", "bd")) == ["b", "a", "c", "d"]


def test_what_a_node_leads_to():
    one = graph("ab", "bc", "ca", "cd", "xy")
    assert one.reachable("a") == {"a", "b", "c", "d"}
    assert one.reachable("a", 2) == {"a", "b", "c"}
    assert one.reachable("nowhere") == {"nowhere"}


def test_preorder_goes_deep_first():
    assert graph("ab", "ac", "bd", "cd", "da").preorder("a") == ["a", "b", "d", "c"]
