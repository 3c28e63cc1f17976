"""Two artifacts side by side: what differs in their signatures, manifests, programs, numbers, sizes and speed."""
