"""tensor2tensor: its variables, checkpoints, runs and packages of users, both ways."""
