"""What it costs to send a parcel."""
