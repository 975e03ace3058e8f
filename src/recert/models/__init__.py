"""What can be certified, and how it is told apart from everything else."""
