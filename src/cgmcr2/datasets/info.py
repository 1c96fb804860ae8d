"""Size, source, licence and citation of each data set."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """Address and published MD5 checksum of an official file."""

    url: str
    md5: str

    @property
    def file(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set.

    ``train`` and ``test`` are numbers of images; ``test`` is 0 if the paper trains and tests on all images.
    """

    name: str
    title: str
    classes: int
    train: int
    test: int
    licence: str
    citation: str
    homepage: str
    folders: tuple[str, ...]  # subfolders of the root, searched before the root itself; downloads go to the first
    downloads: tuple[Download, ...] = ()
    obtain: str = "enable download (--download), or copy the official files there"  # completes an error message

    @property
    def rows(self) -> int:
        return self.train + self.test


def _downloads(base: str, **md5: str) -> tuple[Download, ...]:
    return tuple(Download(base + file, checksum) for file, checksum in md5.items())


_CIFAR_CITATION = "A. Krizhevsky. Learning multiple layers of features from tiny images. Technical report, 2009."
_CIFAR_LICENCE = "none stated by its authors; they ask to be cited"
_CIFAR_HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CIFAR_100 = _downloads(
    "https://www.cs.toronto.edu/~kriz/", **{"cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"}
)
_IMAGENET_LICENCE = "ImageNet's terms: research and education only, not commercial"
_FROM_IMAGENET = "none stated; the images are from ImageNet: research and education only, not commercial"

_DATASETS = (
    DatasetInfo(
        name="mnist",
        title="MNIST",
        classes=10,
        train=60_000,
        test=10_000,
        licence="CC BY-SA 3.0",
        citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document recognition. "
        "Proceedings of the IEEE, 1998.",
        homepage="http://yann.lecun.com/exdb/mnist/",
        folders=("mnist", "MNIST/raw", "MNIST"),
        downloads=_downloads(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",  # a mirror: the homepage no longer offers the files
            **{
                "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
    ),
    DatasetInfo(
        name="fashion-mnist",
        title="Fashion-MNIST",
        classes=10,
        train=60_000,
        test=10_000,
        licence="MIT",
        citation="H. Xiao, K. Rasul, R. Vollgraf. Fashion-MNIST: a novel image dataset for benchmarking machine "
        "learning algorithms. arXiv:1708.07747, 2017.",
        homepage="https://github.com/zalandoresearch/fashion-mnist",
        folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
        downloads=_downloads(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            **{
                "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
    ),
    DatasetInfo(
        name="cifar10",
        title="CIFAR-10",
        classes=10,
        train=50_000,
        test=10_000,
        licence=_CIFAR_LICENCE,
        citation=_CIFAR_CITATION,
        homepage=_CIFAR_HOME,
        folders=("cifar10",),
        downloads=_downloads(
            "https://www.cs.toronto.edu/~kriz/", **{"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}
        ),
    ),
    DatasetInfo(
        name="cifar20",
        title="CIFAR-20",
        classes=20,
        train=50_000,
        test=10_000,
        licence=_CIFAR_LICENCE,
        citation=_CIFAR_CITATION,
        homepage=_CIFAR_HOME,
        folders=("cifar100",),  # the same files as CIFAR-100
        downloads=_CIFAR_100,
    ),
    DatasetInfo(
        name="cifar100",
        title="CIFAR-100",
        classes=100,
        train=50_000,
        test=10_000,
        licence=_CIFAR_LICENCE,
        citation=_CIFAR_CITATION,
        homepage=_CIFAR_HOME,
        folders=("cifar100",),
        downloads=_CIFAR_100,
    ),
    DatasetInfo(
        name="flowers102",
        title="Flowers-102",
        classes=102,
        train=8_189,  # the paper's table says 8,192, but the official files contain 8,189
        test=0,
        licence="none stated by its authors; the photographs were collected from the web",
        citation="M.-E. Nilsback, A. Zisserman. Automated flower classification over a large number of classes. "
        "ICVGIP, 2008.",
        homepage="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        folders=("flowers102", "flowers-102"),
        downloads=_downloads(
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
            **{
                "102flowers.tgz": "52808999861908f626f3c1f4e79d11fa",
                "imagelabels.mat": "e0620be6f572b9609742df49c70aed4d",
            },
        ),
    ),
    DatasetInfo(
        name="dogs120",
        title="Dogs-120",
        classes=120,
        train=20_580,
        test=0,
        licence=_FROM_IMAGENET,
        citation="A. Khosla, N. Jayadevaprakash, B. Yao, L. Fei-Fei. Novel dataset for fine-grained image "
        "categorization. FGVC workshop, CVPR, 2011.",
        homepage="http://vision.stanford.edu/aditya86/ImageNetDogs/",
        folders=("dogs120", "stanford-dogs", "StanfordDogs"),
        downloads=_downloads(
            "http://vision.stanford.edu/aditya86/ImageNetDogs/",
            **{
                "images.tar": "1bb1f2a596ae7057f99d7d75860002ef",
                "lists.tar": "edbb9f16854ec66506b5f09b583e0656",
            },
        ),
    ),
    DatasetInfo(
        name="tinyimagenet",
        title="TinyImageNet",
        classes=200,
        train=100_000,
        test=10_000,  # the validation set; the labels of the test set are not public
        licence=_FROM_IMAGENET,
        citation="Y. Le, X. Yang. Tiny ImageNet visual recognition challenge. CS 231N, Stanford, 2015.",
        homepage="http://cs231n.stanford.edu/",
        folders=("tinyimagenet",),
        downloads=_downloads(
            "http://cs231n.stanford.edu/", **{"tiny-imagenet-200.zip": "90528d7ca1a48142e341f4ef8d21d0de"}
        ),
    ),
    DatasetInfo(
        name="imagenet1k",
        title="ImageNet-1k",
        classes=1000,
        train=1_281_167,
        test=50_000,  # the validation set
        licence=_IMAGENET_LICENCE,
        citation="J. Deng, W. Dong, R. Socher, L.-J. Li, K. Li, L. Fei-Fei. ImageNet: a large-scale hierarchical image "
        "database. CVPR, 2009.",
        homepage="https://image-net.org/download-images",
        folders=("imagenet1k", "imagenet"),
        obtain="it requires accepting its terms: sign in at https://image-net.org/download-images, download "
        "ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz, and copy them there",
    ),
)
_BY_NAME = {re.sub(r"[^a-z0-9]", "", info.name): info for info in _DATASETS}
_ALIASES = {"fmnist": "fashionmnist", "flowers": "flowers102", "dogs": "dogs120", "imagenet": "imagenet1k"}


def list_datasets() -> list[DatasetInfo]:
    """Return the descriptions of all data sets, in the paper's order.

    >>> [info.name for info in list_datasets()][:4]
    ['mnist', 'fashion-mnist', 'cifar10', 'cifar20']
    """
    return list(_DATASETS)


def dataset_info(name: str) -> DatasetInfo:
    """Return the description of a data set; case, hyphens and spaces in the name are ignored.

    >>> dataset_info("CIFAR-100").classes, dataset_info("Fashion MNIST").rows
    (100, 70000)
    """
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    info = _BY_NAME.get(_ALIASES.get(key, key))
    if info is None:
        raise ValueError(f"There is no data set {name!r}: choose from {', '.join(info.name for info in _DATASETS)}.")
    return info
