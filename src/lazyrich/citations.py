"""BibTeX of the results that the exact methods stand on, by key."""

from __future__ import annotations

BIBTEX: dict[str, str] = {
    "fukumizu1998": """@inproceedings{fukumizu1998,
  author    = {Kenji Fukumizu},
  title     = {Effect of Batch Learning in Multilayer Neural Networks},
  booktitle = {International Conference on Neural Information Processing},
  year      = {1998}
}""",
    "saxe2014": """@inproceedings{saxe2014,
  author    = {Andrew M. Saxe and James L. McClelland and Surya Ganguli},
  title     = {Exact solutions to the nonlinear dynamics of learning in deep linear neural networks},
  booktitle = {International Conference on Learning Representations},
  year      = {2014},
  note      = {arXiv:1312.6120}
}""",
    "saxe2019": """@article{saxe2019,
  author  = {Andrew M. Saxe and James L. McClelland and Surya Ganguli},
  title   = {A mathematical theory of semantic development in deep neural networks},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {116},
  number  = {23},
  pages   = {11537--11546},
  year    = {2019}
}""",
    "braun2022": """@inproceedings{braun2022,
  author    = {Lukas Braun and Cl{\\'e}mentine C. J. Domin{\\'e} and James E. Fitzgerald and Andrew M. Saxe},
  title     = {Exact learning dynamics of deep linear networks with prior knowledge},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {35},
  year      = {2022}
}""",
    "kirkpatrick2017": """@article{kirkpatrick2017,
  author  = {James Kirkpatrick and Razvan Pascanu and Neil Rabinowitz and Joel Veness and Guillaume Desjardins and
             Andrei A. Rusu and Kieran Milan and John Quan and Tiago Ramalho and Agnieszka Grabska-Barwinska and
             Demis Hassabis and Claudia Clopath and Dharshan Kumaran and Raia Hadsell},
  title   = {Overcoming catastrophic forgetting in neural networks},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {114},
  number  = {13},
  pages   = {3521--3526},
  year    = {2017}
}""",
    "chizat2019": """@inproceedings{chizat2019,
  author    = {L{\\'e}na{\\"i}c Chizat and Edouard Oyallon and Francis Bach},
  title     = {On lazy training in differentiable programming},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019}
}""",
    "lee2019": """@inproceedings{lee2019,
  author    = {Jaehoon Lee and Lechao Xiao and Samuel S. Schoenholz and Yasaman Bahri and Roman Novak and
               Jascha Sohl-Dickstein and Jeffrey Pennington},
  title     = {Wide neural networks of any depth evolve as linear models under gradient descent},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019}
}""",
    "kunin2024": """@inproceedings{kunin2024,
  author    = {Daniel Kunin and Allan Ravent{\\'o}s and Cl{\\'e}mentine Domin{\\'e} and Feng Chen and
               David Klindt and Andrew Saxe and Surya Ganguli},
  title     = {Get rich quick: exact solutions reveal how unbalanced initializations promote rapid feature learning},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}""",
    "domine2025": """@inproceedings{domine2025,
  author    = {Cl{\\'e}mentine C. J. Domin{\\'e} and Nicolas Anguita and Alexandra M. Proca and Lukas Braun and
               Daniel Kunin and Pedro A. M. Mediano and Andrew M. Saxe},
  title     = {From Lazy to Rich: Exact Learning Dynamics in Deep Linear Networks},
  booktitle = {International Conference on Learning Representations},
  year      = {2025},
  note      = {arXiv:2409.14623}
}""",
    "tu2024": """@inproceedings{tu2024,
  author    = {Zhenfeng Tu and Santiago Aranguri and Arthur Jacot},
  title     = {Mixed dynamics in linear networks: unifying the lazy and active regimes},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}""",
}
