"""What is known of earlier trials, and kept of new ones.

journal   the record file as a run sees it      trials   those of one task      experience   what they teach about others
"""
