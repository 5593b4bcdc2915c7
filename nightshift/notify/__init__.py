"""Notifies people of a night: once per cause, at most one message a digest interval, nothing lost while they are down.

`outbox.py` decides what is pending and due, `messages.py` writes a message, `sending.py` sends it by the receiver's
URL, `delivery.py` has them work on the record in the state.
"""
