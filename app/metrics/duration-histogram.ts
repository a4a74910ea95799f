// A Prometheus histogram of call durations by server. prom-client's own looks up its labels by a hash for each call,
// which costs several times as much.

/** Upper bounds of the buckets, in seconds. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export class DurationHistogram {
  /** The last bucket is for values above every bound. */
  #counts = new Array<number>(bounds.length + 1).fill(0)
  #sum = 0

  add(seconds: number): void {
    let bucket = 0
    while (seconds > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += seconds
  }

  /** The samples of one server in the text format (version 0.0.4): buckets are cumulative. */
  samples(name: string, server: string): string {
    const labels = `server="${escaped(server)}"`
    let count = 0
    const buckets = this.#counts.map((more, bucket) => {
      count += more
      return `${name}_bucket{le="${bounds[bucket] ?? '+Inf'}",${labels}} ${count}\n`
    })
    return `${buckets.join('')}${name}_sum{${labels}} ${this.#sum}\n${name}_count{${labels}} ${count}\n`
  }
}

function escaped(label: string): string {
  return label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
