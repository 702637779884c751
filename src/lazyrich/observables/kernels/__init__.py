"""The neural tangent kernel: of one network without ever forming it (`algebra`), and along a trajectory (`along`)."""
