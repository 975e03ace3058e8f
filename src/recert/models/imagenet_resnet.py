"""torchvision's ResNet-50 for Tiny ImageNet's classes. torchvision is imported when the network is made."""

from torch import nn

from recert.extras import import_extra
from recert.models.normalization import IMAGENET_MEAN, IMAGENET_STD, NormalizedNetwork

TINY_IMAGENET_CLASSES = 200


def tiny_imagenet_resnet50() -> nn.Module:
    """ResNet-50 with random weights for images in [0, 1], normalisation inside: `--model recert.models.imagenet_resnet:tiny_imagenet_resnet50`.

    The layers are torchvision's, its first convolution with stride 2 and its pooling included, so that an image of 64 x 64 pixels costs a
    twelfth of one of 224 x 224.
    """
    models = import_extra("torchvision.models", extra="vision", purpose="ResNet-50")
    network = models.resnet50(weights=None, num_classes=TINY_IMAGENET_CLASSES)
    return NormalizedNetwork(network, IMAGENET_MEAN, IMAGENET_STD)
