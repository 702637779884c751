"""The images that the experiments learn: two sets that come with scikit-learn, and the standard files of three more.

`images("digits")` and `images("photographs")` work offline. "mnist", "fashion-mnist" and "cifar10" are read from the
files as their authors publish them, which `download` fetches on a machine with internet.
"""

from lazyrich.papers.data.download import download
from lazyrich.papers.data.files import folder_of
from lazyrich.papers.data.images import Images, enough_images, images

__all__ = ["Images", "download", "enough_images", "folder_of", "images"]
