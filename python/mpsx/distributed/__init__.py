"""torch.distributed on mpsx: process groups over gloo, DDP's communication hooks, and DTensor."""
