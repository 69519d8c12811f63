# cases_steps.py: optimisers with their options, schedules and averages of parameters, beside torch's. Optimisers are written once, as in
# torch; schedules in both languages, torch's as a scheduler of the optimiser `o`, whose lr is 1 for factors and 0.1 otherwise.
# SPDX-License-Identifier: MIT
STEPS = 7
OPTIMISERS = """
SGD(lr=0.1)
SGD(lr=0.1, momentum=0.9)
SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)
SGD(lr=0.1, momentum=0.8, dampening=0.3)
SGD(lr=0.05, momentum=0.9, weight_decay=0.05, maximize=True)
Adam(lr=0.02)
Adam(lr=0.02, betas=(0.7, 0.9), eps=0.01, weight_decay=0.1)
Adam(lr=0.02, betas=(0.5, 0.6), amsgrad=True)
Adam(lr=0.02, weight_decay=0.1, maximize=True)
AdamW(lr=0.02)
AdamW(lr=0.02, betas=(0.7, 0.9), weight_decay=0.3)
AdamW(lr=0.02, betas=(0.5, 0.6), amsgrad=True)
AdamW(lr=0.02, maximize=True)
Adamax(lr=0.02)
Adamax(lr=0.02, betas=(0.7, 0.9), weight_decay=0.1, maximize=True)
NAdam(lr=0.02)
NAdam(lr=0.02, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.1)
NAdam(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True)
NAdam(lr=0.02, eps=0.01, maximize=True)
RAdam(lr=0.02)
RAdam(lr=0.02, betas=(0.8, 0.95), weight_decay=0.1)
RAdam(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, eps=0.01)
RAdam(lr=0.02, betas=(0.5, 0.9), maximize=True)
RMSprop(lr=0.02)
RMSprop(lr=0.02, alpha=0.9, momentum=0.5, centered=True)
RMSprop(lr=0.02, momentum=0.9, eps=0.01, weight_decay=0.1)
RMSprop(lr=0.02, centered=True, maximize=True)
Adagrad(lr=0.1)
Adagrad(lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.3, eps=0.01)
Adagrad(lr=0.1, maximize=True)
Adadelta(lr=0.5)
Adadelta(lr=0.5, rho=0.7, eps=0.01, weight_decay=0.1, maximize=True)
Rprop(lr=0.05)
Rprop(lr=0.05, etas=(0.3, 1.5), step_sizes=(0.01, 0.1), maximize=True)
ASGD(lr=0.1)
ASGD(lr=0.1, lambd=0.01, alpha=0.5, t0=2.0, weight_decay=0.1)
ASGD(lr=0.1, lambd=0.01, maximize=True)
Adafactor(lr=0.05)
Adafactor(lr=0.05, beta2_decay=-0.5, eps=(None, 0.01), d=1.5, weight_decay=0.1)
Adafactor(lr=0.05, eps=(1e-10, 0.001), maximize=True)
""".strip().split("\n")

# Of torch.optim; and those of optim that torch has not, or computes in bf16: in cases.py.
LEFT_OUT = {"LBFGS": "calls the loss several times a step", "SparseAdam": "gradients are dense"}
ELSEWHERE = ["Lion", "Muon"]

RATES = 24
SCHEDULES = [
    ("step_decay(0.1, 5)", "StepLR(o, 5)"),
    ("step_decay(0.1, 3, 0.7)", "StepLR(o, 3, gamma=0.7)"),
    ("multi_step(0.1, [4, 9, 15])", "MultiStepLR(o, [4, 9, 15])"),
    ("multi_step(0.1, [1, 2, 20], 0.6)", "MultiStepLR(o, [1, 2, 20], gamma=0.6)"),
    ("exponential(0.1, 0.9)", "ExponentialLR(o, 0.9)"),
    ("linear(0.05, 0.02, 10)", "LinearLR(o, 0.5, 0.2, 10)"),
    ("linear(0.1, 0.0, 17)", "LinearLR(o, 1.0, 0.0, 17)"),
    ("polynomial(0.1, 12)", "PolynomialLR(o, 12)"),
    ("polynomial(0.1, 15, power = 2.5)", "PolynomialLR(o, 15, 2.5)"),
    ("polynomial(0.1, 9, 2.0, 0.01)", "LambdaLR(o, lambda s: 0.1 + 0.9 * (1 - min(s, 9) / 9) ** 2)"),
    ("cosine(0.1, 23)", "CosineAnnealingLR(o, 23)"),
    ("cosine(0.1, 30, 0.02)", "CosineAnnealingLR(o, 30, 0.02)"),
    ("cosine_restarts(0.1, 6)", "CosineAnnealingWarmRestarts(o, 6)"),
    ("cosine_restarts(0.1, 3, 2, 0.01)", "CosineAnnealingWarmRestarts(o, 3, 2, 0.01)"),
    ("cyclic(0.1, 0.5, 4)", "CyclicLR(o, 0.1, 0.5, 4, cycle_momentum=False)"),
    ("cyclic(0.1, 0.5, 3, 5, \"triangular2\")", "CyclicLR(o, 0.1, 0.5, 3, 5, 'triangular2', cycle_momentum=False)"),
    ("cyclic(0.1, 0.5, 5, 2, mode = \"exp_range\", gamma = 0.9)", "CyclicLR(o, 0.1, 0.5, 5, 2, 'exp_range', 0.9, cycle_momentum=False)"),
    ("one_cycle(0.1, 24)", "OneCycleLR(o, 0.1, 24, cycle_momentum=False)"),
    ("one_cycle(0.2, 24, pct_start = 0.5, div = 10.0, final_div = 100.0)",
     "OneCycleLR(o, 0.2, 24, pct_start=0.5, div_factor=10.0, final_div_factor=100.0, cycle_momentum=False)"),
    ("one_cycle(0.1, 24, anneal_strategy = \"linear\")", "OneCycleLR(o, 0.1, 24, anneal_strategy='linear', cycle_momentum=False)"),
    ("one_cycle(0.1, 24, 0.25, anneal_strategy = \"linear\", three_phase = true)",
     "OneCycleLR(o, 0.1, 24, pct_start=0.25, anneal_strategy='linear', three_phase=True, cycle_momentum=False)"),
    ("one_cycle(0.1, 24, 0.25, three_phase = true)", "OneCycleLR(o, 0.1, 24, pct_start=0.25, three_phase=True, cycle_momentum=False)"),
    ("warmup(0.1, 5)", "LinearLR(o, 0.2, 1.0, 4)"),
    ("warmup(cosine(0.1, 19), 5)",
     "SequentialLR(o, [LambdaLR(o, lambda s: (s + 1) / 5), CosineAnnealingLR(o, 19)], [5])"),
    ("warmup_linear(0.1, 4, 20)", "LambdaLR(o, lambda s: min((s + 1) / 4, max(0.0, (20 - (s + 1)) / 16)))"),
    ("warmup_linear(0.1, 4, 20, 0.02)", "LambdaLR(o, lambda s: (s + 1) / 4 if s < 4 else 1 - 0.8 * min((s + 1 - 4) / 16, 1))"),
    ("warmup_cosine(0.1, 4, 20)", "LambdaLR(o, lambda s: (s + 1) / 4 if s < 4 else 0.5 * (1 + math.cos(math.pi * min((s + 1 - 4) / 16, 1))))"),
    ("warmup_cosine(0.1, 4, 20, floor = 0.02)",
     "LambdaLR(o, lambda s: (s + 1) / 4 if s < 4 else 0.2 + 0.4 * (1 + math.cos(math.pi * min((s + 1 - 4) / 16, 1))))"),
    ("inverse_sqrt(0.1, 4)", "LambdaLR(o, lambda s: min((s + 1) / 4, ((s + 1) / 4) ** -0.5))"),
    ("sequence([0.02, step_decay(0.1, 2, 0.5)], [3])", "SequentialLR(o, [ConstantLR(o, 0.2, 100), StepLR(o, 2, 0.5)], [3])"),
    ("sequence([linear(0.01, 0.1, 5), exponential(0.1, 0.8), 0.05], [5, 12])",
     "SequentialLR(o, [LinearLR(o, 0.1, 1.0, 5), ExponentialLR(o, 0.8), ConstantLR(o, 0.5, 100)], [5, 12])"),
]

# Averages: what the train is given, and torch's function with the steps (from 1) after which it is called.
AVERAGES = [
    ("ema()", "get_ema_multi_avg_fn(0.999)", "True"),
    ("ema(0.7)", "get_ema_multi_avg_fn(0.7)", "True"),
    ("swa()", "get_swa_multi_avg_fn()", "True"),
    ("swa(3, 2)", "get_swa_multi_avg_fn()", "t >= 3 and (t - 3) % 2 == 0"),
]
