// Compares the gateway with the relay: same upstream and load, alternating rounds. On one core and on two, over both
// protocols, and at half load.
import { figure, heading, print, table } from '../measure/report.js'
import { spreadOf } from '../measure/statistics.js'
import { mcpRequestsFor } from './mcp-requests.js'
import { requestsFor } from './requests.js'
import { alternate, compared, measureRound, type Round, type Rounds, type Subject } from './round.js'
import { Scene } from './scene.js'

/** By connections: the target of the relay's CPU over that of the gateway. */
const CPU_TARGETS = new Map([
  [16, 0.3],
  [64, 0.37],
])
const FULL_LOAD = 64
const MIN_MCP = 0.9
const MIN_TWO_CORES = 0.5
const MAX_ADDED_MS = 3
const RELAY = 'relay'
const GATEWAY = 'gateway'
const TWO_CORES = 'gateway on two cores'
const MCP = 'gateway, MCP'
const WARM_UP_MS = 2500
/** A slow machine takes longer until the code of a call is compiled, but as many calls. */
const WARM_UP_CALLS = 12_000

/** The rounds of each subject, by the number of connections. */
export async function compareGateway(dir: string, quick: boolean): Promise<Record<string, Rounds>> {
  heading('Gateway against a bare relay (everything on)')
  const [count, milliseconds] = quick ? [3, 1000] : [7, 2500]
  const scene = await Scene.set(dir)
  try {
    print(`  ${scene.placement()}`)
    const subjects = await startSubjects(scene)
    const all: Record<string, Rounds> = {}
    for (const [connections, target] of CPU_TARGETS) {
      await alternate(scene, subjects, 1, { connections, until: { milliseconds: WARM_UP_MS } })
      const rounds = await alternate(scene, subjects, count, { connections, until: { milliseconds } })
      report(connections, rounds, target)
      all[connections] = rounds
    }
    await reportSignatures(subjects)
    const both = subjects.filter(({ name }) => name === RELAY || name === GATEWAY)
    all['half load'] = await measureHalfLoad(scene, both, all[FULL_LOAD]?.[GATEWAY] ?? [], {
      count,
      milliseconds,
    })
    return all
  } finally {
    await scene.end()
  }
}

/** The relay's CPU per call over the gateway's, at 16 connections: the median of a few short rounds. */
export async function gatewayRatio(dir: string): Promise<number> {
  const scene = await Scene.set(dir)
  try {
    const subjects = await startPair(scene)
    for (const subject of subjects)
      await measureRound(scene, subject, { connections: 16, until: { calls: WARM_UP_CALLS } })
    const rounds = await alternate(scene, subjects, 3, { connections: 16, until: { milliseconds: 1000 } })
    return compared(rounds, [GATEWAY, RELAY], callsPerCpu).median
  } finally {
    await scene.end()
  }
}

async function startPair(scene: Scene): Promise<readonly [relay: Subject, gateway: Subject]> {
  const [relay, gateway] = [await scene.subject('relay'), await scene.subject('gateway')]
  return [
    { name: RELAY, child: relay, requests: requestsFor(relay.port, scene.tokens) },
    { name: GATEWAY, child: gateway, requests: requestsFor(gateway.port, scene.tokens) },
  ]
}

async function startSubjects(scene: Scene): Promise<readonly Subject[]> {
  const echo = await scene.echo()
  const [relay, gateway] = await startPair(scene)
  const { child } = gateway
  const mcp = await mcpRequestsFor(child.port, scene.tokens, FULL_LOAD)
  const subjects = [
    { name: 'node:http alone', child: echo, requests: requestsFor(echo.port, scene.tokens) },
    relay,
    gateway,
    ...Object.entries(mcp).map(([revision, requests]) => ({ name: `${MCP} ${revision}`, child, requests })),
  ]
  if (!scene.pinned) return subjects
  const wide = await scene.subject('gateway', { cores: 2 })
  return [...subjects, { name: TWO_CORES, child: wide, requests: requestsFor(wide.port, scene.tokens) }]
}

function report(connections: number, rounds: Rounds, target: number): void {
  print(`\n  ${connections} connections`)
  table([
    ['', 'calls/s', 'CPU µs a call', 'cores busy', 'p50 ms', 'p99 ms'],
    ...Object.entries(rounds).map(([name, of]) => {
      const spread = (value: (round: Round) => number, decimals: number) =>
        figure(spreadOf(of.map(value)), decimals)
      const median = (value: (round: Round) => number) => spreadOf(of.map(value)).median.toFixed(2)
      return [
        name,
        spread((round) => round.callsPerSecond, 0),
        spread((round) => round.cpuPerCall, 1),
        median((round) => round.busy),
        median((round) => round.p50),
        median((round) => round.p99),
      ]
    }),
  ])
  const ratio = compared(rounds, [GATEWAY, RELAY], callsPerCpu)
  const added = compared(rounds, [GATEWAY, RELAY], (gateway, relay) => gateway.cpuPerCall - relay.cpuPerCall)
  const rate = compared(rounds, [GATEWAY, RELAY], speed)
  print(
    `  gateway / relay: ${figure(ratio, 2)} by CPU (target ${target}), ${figure(rate, 2)} by calls per second`,
  )
  print(`  the gateway's part above the relay: ${figure(added)} µs of CPU a call`)
  for (const name of Object.keys(rounds).filter((one) => one.startsWith(MCP))) {
    const mcp = compared(rounds, [name, GATEWAY], callsPerCpu)
    print(`  ${name} / invoke: ${figure(mcp, 2)} by CPU (target ${MIN_MCP})`)
  }
  if (rounds[TWO_CORES] === undefined) return
  const wide = compared(rounds, [TWO_CORES, RELAY], speed)
  print(`  ${TWO_CORES} / relay on one: ${figure(wide, 2)} by calls per second (target ${MIN_TWO_CORES})`)
}

/** More calls per second of CPU than `other`. */
function callsPerCpu(one: Round, other: Round): number {
  return other.cpuPerCall / one.cpuPerCall
}

function speed(one: Round, other: Round): number {
  return one.callsPerSecond / other.callsPerSecond
}

async function reportSignatures(subjects: readonly Subject[]): Promise<void> {
  for (const { name, child } of subjects.filter((one) => one.name === TWO_CORES)) {
    const { all, byThread } = await child.ask('signatures')
    print(`\n  ${name}: its signing thread signed ${Math.round((100 * byThread) / all)} % of the records`)
  }
}

/** Requests are due at half of the rate that the gateway reached, so that a delay counts for every delayed call. */
async function measureHalfLoad(
  scene: Scene,
  subjects: readonly Subject[],
  full: readonly Round[],
  { count, milliseconds }: { readonly count: number; readonly milliseconds: number },
): Promise<Rounds> {
  const perSecond = Math.round(spreadOf(full.map((round) => round.callsPerSecond)).median / 2)
  const rounds = await alternate(scene, subjects, count, {
    connections: FULL_LOAD,
    until: { milliseconds },
    perSecond,
  })
  const p99 = (name: string) => figure(spreadOf((rounds[name] ?? []).map((round) => round.p99)), 2)
  const added = compared(rounds, [GATEWAY, RELAY], (gateway, relay) => gateway.p99 - relay.p99)
  print(
    `  at half load, ${perSecond} calls a second: p99 ${p99(RELAY)} ms in the relay, ${p99(GATEWAY)} ms in the gateway, ` +
      `${figure(added, 2)} ms added (bound ${MAX_ADDED_MS})`,
  )
  return rounds
}
