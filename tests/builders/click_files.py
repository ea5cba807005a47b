"""Generated files in the form of public click logs: MovieLens' ratings and Avazu's clicks."""

import numpy as np
import pandas as pd


def make_ratings(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Make ratings.csv of MovieLens: userId, movieId, rating from 0.5 to 5, timestamp in order; and genres."""
    draw = np.random.default_rng(seed)
    users, movies = draw.zipf(1.2, num_rows) % 800, draw.zipf(1.2, num_rows) % 600
    tastes, contents = draw.normal(size=(800, 4)), draw.normal(size=(600, 4))
    liking = draw.normal(0, 0.6, 800)[users] + draw.normal(0, 0.6, 600)[movies]
    liking += 0.9 * (tastes[users] * contents[movies]).sum(1) + draw.normal(0, 0.5, num_rows)
    genres = np.array(["Drama", "Comedy", "Action|Adventure", "Drama|War", "Comedy|Romance|Drama"])
    return pd.DataFrame(
        {
            "userId": users,
            "movieId": movies,
            "rating": np.clip(np.round(2 * (3.5 + liking)) / 2, 0.5, 5),
            "timestamp": 1_000_000_000 + np.sort(draw.integers(0, 10**7, num_rows)),
            "genres": genres[movies % 5],
        }
    )


def make_ads(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Make train.gz of Avazu: id, click, hour as YYMMDDHH in order, and hashed ids as eight hexadecimal digits."""
    draw = np.random.default_rng(seed)
    sites, apps, devices = (draw.zipf(1.3, num_rows) % size for size in (900, 400, 6000))
    hidden, shown = draw.normal(size=(900, 4)), draw.normal(size=(400, 4))
    score = draw.normal(0, 0.5, 900)[sites] + draw.normal(0, 0.5, 400)[apps]
    score += 1.2 * (hidden[sites] * shown[apps]).sum(1) - 1.5
    hours = np.sort(draw.integers(0, 240, num_rows))
    return pd.DataFrame(
        {
            "id": [str(10**18 + 7919 * row) for row in range(num_rows)],
            "click": (draw.random(num_rows) < 1 / (1 + np.exp(-score))).astype(int),
            "hour": 14_102_100 + 100 * (hours // 24) + hours % 24,
            "banner_pos": draw.integers(0, 7, num_rows),
            "site_id": _hexadecimal(sites),
            "app_id": _hexadecimal(apps),
            "device_id": _hexadecimal(devices),
            "C14": draw.integers(375, 24_000, num_rows),
        }
    )


def _hexadecimal(values: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[str]:
    return [f"{(value * 2_654_435_761 + 12_345) % 2**32:08x}" for value in values.tolist()]
