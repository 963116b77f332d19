"""Finding look-alikes: who else is very likely positive, where only some positives are known, and no negatives."""
