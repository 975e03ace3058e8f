"""A small convolutional network for 8x8 digits: a few microseconds a sample on one core."""

from torch import Tensor, nn
from torch.nn import functional


class DigitsNetwork(nn.Module):
    """Two convolutions and two linear layers, 38,282 parameters, for inputs (1, 8, 8) in [0, 1].

    No batch normalisation: with it the accuracy under noise was the same within a standard error and a sample cost a
    quarter more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, digits: Tensor) -> Tensor:
        hidden = functional.relu(self.conv1(digits))
        hidden = functional.relu(self.conv2(hidden))
        hidden = functional.relu(self.fc1(hidden.flatten(1)))
        logits: Tensor = self.fc2(hidden)
        return logits
