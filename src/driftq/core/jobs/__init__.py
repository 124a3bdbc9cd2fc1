"""Jobs: work that is claimed by priority and age, on the same log as everything else."""
