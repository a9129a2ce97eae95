"""The one place that says which of our kernels computes on which kind of device."""

# Everywhere else, and where the package is not installed, torch's own operations compute.
KERNEL_ON = {"cpu": "numba", "cuda": "triton"}

# What was written for a GPU and never ran on one: there was none to try it on.
UNTRIED_ON_GPU = (
    "H-Softmax kernels in Triton: equal to the reference in Triton's interpreter, on a CPU",
    "training on a GPU: model, losses and optimizer are torch's own operations there",
    "bf16 autocast on a GPU, and the rule that chooses it by what the GPU offers",
    "pinned memory and transfers beside the computing (`model/transfer.py`)",
    "several GPUs or hosts with GPUs: NCCL, a GPU for each process by its local rank",
    "decoding, transcribing and aligning on a GPU; the searches themselves stay on the CPU",
    "frozen encoders that compute their states on a GPU",
    "`train.compile` on a GPU",
    "Apple's GPUs (mps): fp32 only",
)
