"""Which of many solutions the flow ends in, and why: function space, potentials, and what depth prefers."""
