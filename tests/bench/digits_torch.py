"""The peer of models/digits.tn in PyTorch eager: prints the seconds of each epoch.
Usage: digits_torch.py digits.npz EPOCHS BATCH THREADS"""
import sys, time
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

data = np.load(sys.argv[1])
epochs, batch, threads = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
torch.manual_seed(0)
x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
xt, yt = torch.from_numpy(data["x_test"]), torch.from_numpy(data["y_test"])

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 64)])
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.layers:
            x = F.dropout(F.relu(layer(x)), 0.1, self.training)
        return self.head(x)

model = MLP()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(epochs):
    begin = time.perf_counter()
    model.train()
    order = torch.randperm(len(x))
    total = correct = 0.0
    for i in range(0, len(x), batch):
        rows = order[i:i + batch]
        xb, yb = x[rows], y[rows]
        logits = model(xb)
        loss = F.cross_entropy(logits, yb)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * len(rows)
        correct += (logits.argmax(-1) == yb).sum().item()
    print("epoch %d loss %.4f accuracy %.4f %.6f s" % (epoch + 1, total / len(x), correct / len(x), time.perf_counter() - begin), flush=True)
model.eval()
with torch.no_grad():
    print("test accuracy %.4f" % (model(xt).argmax(-1) == yt).float().mean().item())
