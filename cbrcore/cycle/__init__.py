"""Algorithm 1 of the paper: retrieve, reuse, revise, retain; its episodes, and how good they are."""
