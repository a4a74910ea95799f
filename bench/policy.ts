// The cost of authentication, entitlements and quotas, with few and with many patterns, and its share of a whole call.
import { CONNECTIONS, cpuOfCalls } from './gateway/cpu-of-calls.js'
import { startIssuer } from './gateway/issuer.js'
import { figure, heading, print, table } from './measure/report.js'
import { type Spread, spreadOf } from './measure/statistics.js'
import { entitlementsOf } from './policy/patterns.js'
import { Stages, stageNames } from './policy/stages.js'

const PATTERNS = [10, 10_000]
const USERS = 8

/** The rounds, by number of patterns. */
export async function measurePolicy(disk: string, quick: boolean): Promise<unknown> {
  heading('Who may call what, how often: CPU of a call, tokens known')
  const ofStages = await costOfStages(quick)
  const settings = PATTERNS.map((patterns) => [patterns, { entitlements: entitlementsOf(patterns) }] as const)
  const ofCalls = await cpuOfCalls(disk, quick, new Map(settings))
  const stages = new Map([...ofStages].map(([patterns, upTo]) => [patterns, pricesOf(upTo)]))
  const whole = new Map([...ofCalls].map(([patterns, cpu]) => [patterns, spreadOf(cpu)]))
  const row = (name: string, of: (patterns: number) => Spread | undefined) => [
    name,
    ...PATTERNS.map((patterns) => shown(of(patterns))),
  ]
  table([
    ['µs', ...PATTERNS.map((patterns) => `${patterns.toLocaleString('en')} patterns`)],
    ...stageNames.map((name, i) => row(name, (patterns) => stages.get(patterns)?.parts[i])),
    row('together', (patterns) => stages.get(patterns)?.together),
    row('a whole call', (patterns) => whole.get(patterns)),
  ])
  const shares = PATTERNS.map((patterns) => {
    const share = (stages.get(patterns)?.together.median ?? Number.NaN) / (whole.get(patterns)?.median ?? 1)
    return `${Math.round(100 * share)} %`
  })
  print(`  of a whole call: ${shares.join(' and ')}; ${CONNECTIONS} connections, everything on`)
  return { stages: Object.fromEntries(ofStages), calls: Object.fromEntries(ofCalls) }
}

interface Prices {
  readonly parts: readonly Spread[]
  readonly together: Spread
}

/** In each round, the CPU of a call through none, one, two, … stages. */
async function costOfStages(quick: boolean): Promise<Map<number, number[][]>> {
  const issuer = await startIssuer(USERS)
  const rounds = new Map(PATTERNS.map((patterns): [number, number[][]] => [patterns, []]))
  const opened = await Promise.all(PATTERNS.map(async (patterns) => Stages.open(issuer, patterns)))
  const calls = quick ? 5_000 : 20_000
  try {
    // The first round is a warm-up.
    for (let round = -1; round < (quick ? 3 : 9); round++) {
      for (const [i, stages] of opened.entries()) {
        const upTo: number[] = []
        for (let count = 0; count <= stageNames.length; count++) upTo.push(await stages.cpu(count, calls))
        if (round >= 0) rounds.get(PATTERNS[i] ?? 0)?.push(upTo)
      }
    }
  } finally {
    for (const stages of opened) await stages.close()
    issuer.close()
  }
  return rounds
}

function pricesOf(rounds: readonly (readonly number[])[]): Prices {
  const between = (from: number, to: number) =>
    spreadOf(rounds.map((upTo) => (upTo[to] ?? Number.NaN) - (upTo[from] ?? Number.NaN)))
  return { parts: stageNames.map((_, i) => between(i, i + 1)), together: between(0, stageNames.length) }
}

function shown(spread: Spread | undefined): string {
  return spread === undefined ? '' : figure(spread)
}
