"""What only running an image shows: its packages can be imported, and its plugin takes over."""
