"""What it costs to send an order."""
