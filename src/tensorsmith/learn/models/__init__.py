"""Models of cost: the analytic prior, trees that learn what it has wrong, and what they have in common."""
