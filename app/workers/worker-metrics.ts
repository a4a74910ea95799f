// The metrics of all workers as one: counters and histograms are added up, also those of workers that have ended, because
// a counter must not fall; gauges, and the metrics of processes, get the label `worker`.
import { Registry } from 'prom-client'
import { collectedCounter, collectedGauge } from '../telemetry/metrics/own-metric.js'
import type { WorkerProcess } from './worker-process.js'

interface Family {
  /** The lines for HELP and TYPE. */
  readonly head: string[]
  readonly isSum: boolean
  /** The values by name and labels, as in the text. */
  readonly samples: Map<string, string>
}

type Families = Map<string, Family>

export class MetricsOfWorkers {
  #serving: () => readonly WorkerProcess[]
  #last = new Map<number, Families>()
  /** Sums of the workers that have ended. */
  #ended: Families = new Map()
  #restarts = 0
  #own = new Registry()

  /** `serving` returns the workers that listen. */
  constructor(serving: () => readonly WorkerProcess[]) {
    this.#serving = serving
    this.addOwnTo(this.#own)
  }

  /** Adds the metrics that no worker has. */
  addOwnTo(registry: Registry): void {
    collectedGauge('svc_workers', registry, (workers) => workers.set(this.#serving().length))
    collectedCounter('svc_worker_restarts_total', registry, (restarts) => restarts.inc(this.#restarts))
  }

  /** The metrics in the text format (version 0.0.4). */
  async text(): Promise<string> {
    await Promise.all(this.#serving().map((worker) => this.#read(worker)))
    const all: Families = new Map()
    add(all, this.#ended)
    for (const [worker, families] of this.#last) {
      add(all, families)
      label(all, families, worker)
    }
    const lines = [...all.values()].flatMap(({ head, samples }) => [
      ...head,
      ...[...samples].map(([sample, value]) => `${sample} ${value}`),
      '',
    ])
    return [...lines, await this.#own.metrics()].join('\n')
  }

  ended(worker: number): void {
    add(this.#ended, this.#last.get(worker) ?? new Map())
    this.#last.delete(worker)
  }

  replaced(): void {
    this.#restarts++
  }

  /** If it does not respond, what it counted until the last time is kept. */
  async #read(worker: WorkerProcess): Promise<void> {
    const text = await worker.metrics()
    if (text !== null && worker.isServing) this.#last.set(worker.number, familiesIn(text))
  }
}

function familiesIn(text: string): Families {
  const families: Families = new Map()
  let head: string[] = []
  let family: Family | undefined
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ')) head = [line]
    else if (line.startsWith('# TYPE ')) {
      const [, , name = '', type = ''] = line.split(' ')
      const isSum = type !== 'gauge' && !/^(process|nodejs)_/.test(name)
      family = { head: [...head, line], isSum, samples: new Map() }
      families.set(name, family)
    } else if (line !== '') {
      // A value has no space, and what is before it may have some.
      const end = line.lastIndexOf(' ')
      family?.samples.set(line.slice(0, end), line.slice(end + 1))
    }
  }
  return families
}

/** Adds what is a sum. */
function add(all: Families, families: Families): void {
  for (const [name, { head, isSum, samples }] of families) {
    if (!isSum) continue
    const family = all.get(name) ?? { head, isSum, samples: new Map<string, string>() }
    all.set(name, family)
    for (const [sample, value] of samples) {
      family.samples.set(sample, String(Number(family.samples.get(sample) ?? 0) + Number(value)))
    }
  }
}

/** Adds what is not a sum, for the worker. */
function label(all: Families, families: Families, worker: number): void {
  for (const [name, { head, isSum, samples }] of families) {
    if (isSum) continue
    const family = all.get(name) ?? { head, isSum, samples: new Map<string, string>() }
    all.set(name, family)
    for (const [sample, value] of samples) family.samples.set(labelled(sample, worker), value)
  }
}

function labelled(sample: string, worker: number): string {
  const begin = sample.indexOf('{')
  if (begin === -1) return `${sample}{worker="${worker}"}`
  return `${sample.slice(0, begin)}{worker="${worker}",${sample.slice(begin + 1)}`
}
