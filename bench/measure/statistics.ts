// Statistics over rounds: median and range, so that a noisy round is visible.

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The percentile `p` (0 to 1) of the samples (nearest rank). NaN without samples. */
export function quantile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.min(sorted.length - 1, Math.ceil(p * sorted.length) - 1))] ?? Number.NaN
}

export function spreadOf(samples: readonly number[]): Spread {
  return { median: quantile(samples, 0.5), min: Math.min(...samples), max: Math.max(...samples) }
}

/** Least-squares slope of y over x. */
export function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const meanX = mean(points.map(([x]) => x))
  const meanY = mean(points.map(([, y]) => y))
  let covariance = 0
  let variance = 0
  for (const [x, y] of points) {
    covariance += (x - meanX) * (y - meanY)
    variance += (x - meanX) ** 2
  }
  return covariance / variance
}
