"""What is known of a program before it runs, for whole populations at once: numbers per statement (`schema` lists them)."""
