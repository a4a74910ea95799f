// Histograms of durations. Those of prom-client look up their labels by a hash for each value, which costs several times
// as much.
import { Histogram, type Registry } from 'prom-client'

/** Upper bounds of the buckets, in seconds. */
const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** The durations with one value of the label. */
export class Durations {
  /** The last bucket is for values above every bound. */
  readonly counts = new Array<number>(bounds.length + 1).fill(0)
  sum = 0

  add(seconds: number): void {
    let bucket = 0
    while (seconds > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket++
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1
    this.sum += seconds
  }
}

interface Description {
  readonly help: string
  /** At most one. */
  readonly labels?: readonly string[]
}

type Described = Awaited<ReturnType<Histogram['get']>>
type Sample = Described['values'][number]

/** A histogram with at most one label, in a registry. */
export class DurationHistogram extends Histogram {
  #name: string
  /** An empty one, for the members of a description, whose types prom-client does not state as they are. */
  #described: Histogram
  #label: string | undefined
  #series = new Map<string, Durations>()

  constructor(name: string, { help, labels = [] }: Description, registry: Registry) {
    const options = { name, help, labelNames: [...labels], buckets: bounds }
    super({ ...options, registers: [registry] })
    this.#name = name
    this.#described = new Histogram({ ...options, registers: [] })
    this.#label = labels[0]
  }

  /** The number of values that the label has. */
  get size(): number {
    return this.#series.size
  }

  has(value: string): boolean {
    return this.#series.has(value)
  }

  of(value = ''): Durations {
    let durations = this.#series.get(value)
    if (durations === undefined) {
      durations = new Durations()
      this.#series.set(value, durations)
    }
    return durations
  }

  override async get(): Promise<Described> {
    const values = [...this.#series].flatMap(([value, durations]) => this.#samples(value, durations))
    return { ...(await this.#described.get()), values }
  }

  /** prom-client calls it for the text format. */
  getForPromString(): Promise<Described> {
    return this.get()
  }

  /** Buckets are cumulative. */
  #samples(value: string, { counts, sum }: Durations): Sample[] {
    const labels: Record<string, string> = this.#label === undefined ? {} : { [this.#label]: value }
    let count = 0
    const buckets = counts.map((more, bucket) => {
      count += more
      const le = bounds[bucket] ?? '+Inf'
      return { metricName: `${this.#name}_bucket`, labels: { le, ...labels }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${this.#name}_sum`, labels, value: sum },
      { metricName: `${this.#name}_count`, labels, value: count },
    ]
  }
}
