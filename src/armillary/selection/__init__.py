"""What chooses models, angles and thresholds for users."""
