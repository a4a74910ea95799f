// A strict parser of the Prometheus text format (version 0.0.4), which throws for any deviation.

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: readonly Sample[]
}

const helpLine = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/
const typeLine = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)$/
const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\+Inf|-Inf|Nan)$/
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y

/** By name. Throws for a misplaced line, a duplicate series, and inconsistent buckets. */
export function parseMetrics(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, { name: string; type: string; help: string; samples: Sample[] }>()
  const series = new Set<string>()
  let help: RegExpExecArray | undefined
  let current: { name: string; type: string; help: string; samples: Sample[] } | undefined
  for (const line of text.split('\n')) {
    if (line === '') continue
    const said = helpLine.exec(line)
    const typed = typeLine.exec(line)
    if (said !== null) {
      help = said
    } else if (typed !== null) {
      const [, name = '', type = ''] = typed
      if (help?.[1] !== name || families.has(name)) throw new Error(`out of place: ${line}`)
      current = { name, type, help: help[2] ?? '', samples: [] }
      families.set(name, current)
    } else {
      const sample = sampleOf(line)
      if (current === undefined || !belongs(sample.name, current)) throw new Error(`out of place: ${line}`)
      const key = `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`
      if (series.has(key)) throw new Error(`duplicate series: ${line}`)
      series.add(key)
      current.samples.push(sample)
    }
  }
  for (const family of families.values()) if (family.type === 'histogram') checkBuckets(family)
  return families
}

/** The one sample with these labels and perhaps more; throws if there is none, or are several. */
export function sampled(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const all = [...families.values()].flatMap(({ samples }) => samples)
  const found = all.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  )
  const [only] = found
  if (only === undefined || found.length > 1) throw new Error(`${found.length} samples of ${name}`)
  return only.value
}

function sampleOf(line: string): Sample {
  const parts = sampleLine.exec(line)
  if (parts === null) throw new Error(`not a sample: ${line}`)
  const [, name = '', inner = '', value = ''] = parts
  const labels: Record<string, string> = {}
  label.lastIndex = 0
  while (label.lastIndex < inner.length) {
    const one = label.exec(inner)
    if (one === null) throw new Error(`not labels: ${line}`)
    const [, key = '', text = ''] = one
    if (key in labels) throw new Error(`a label twice: ${line}`)
    labels[key] = text.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
  }
  return { name, labels, value: value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value) }
}

function belongs(name: string, { name: family, type }: Pick<Family, 'name' | 'type'>): boolean {
  if (type !== 'histogram') return name === family
  return [`${family}_bucket`, `${family}_sum`, `${family}_count`].includes(name)
}

function checkBuckets({ name, samples }: Family): void {
  const groups = new Map<string, Sample[]>()
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    groups.set(key, [...(groups.get(key) ?? []), sample])
  }
  for (const group of groups.values()) {
    const buckets = group.filter((sample) => sample.name === `${name}_bucket`)
    const counts = buckets.map(({ value }) => value)
    if (counts.some((count, at) => count < (counts[at - 1] ?? 0))) throw new Error(`${name} shrinks`)
    const last = buckets.at(-1)
    const total = group.find((sample) => sample.name === `${name}_count`)
    if (last?.labels['le'] !== '+Inf' || last.value !== total?.value) throw new Error(`${name} lacks +Inf`)
  }
}
