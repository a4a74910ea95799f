// The CPU time and the allocation of a call by part: sampled in the gateway and in the relay under load, as tables.
import { Scene } from './gateway/scene.js'
import { heading, print, table } from './measure/report.js'
import { CONNECTIONS, type Parts, profileAllocation, profileCpu, sum } from './profile/call-profile.js'
import { largestSites } from './profile/sites.js'

const CALLS = 30_000
const SITES = 12
const MAX_KILOBYTES = 38
/** Smaller parts share a row. */
const MIN_SHARE = 0.005

/** Microseconds of CPU and kilobytes of the heap that a call takes. */
interface Profiled {
  readonly cpu: Parts
  readonly allocation: Parts
}

export interface Profiles {
  readonly gateway: Profiled
  readonly relay: Profiled
}

export async function measureProfile(disk: string, quick: boolean): Promise<Profiles> {
  heading(`Where the CPU and the allocation of a call go, ${CONNECTIONS} connections`)
  const calls = quick ? CALLS / 3 : CALLS
  const [relay, gateway] = [await profiled('relay', disk, calls), await profiled('gateway', disk, calls)]
  divide('CPU µs of a call', gateway.cpu.parts, relay.cpu.parts)
  print(
    '  all CPU time of the process: that of the event loop divided by samples, after as many calls to warm up\n',
  )
  const { parts, tree, counted } = gateway.allocation
  divide('KB allocated by a call', parts, relay.allocation.parts)
  const checked = [counted, relay.allocation.counted].map((kilobytes) => kilobytes.toFixed(1))
  print(
    `  counted by the collector: ${checked.join(' and ')} KB; target of the gateway ${MAX_KILOBYTES} KB\n`,
  )
  table([
    [`the ${SITES} functions of the gateway that allocate most`, 'KB of a call'],
    ...largestSites(tree, SITES).map(({ name, file, weight }) => [
      file === '' ? 'outside of functions' : `${name} (${file})`,
      (weight / 1000 / calls).toFixed(2),
    ]),
  ])
  const raw = ({ cpu, allocation }: typeof gateway) => ({ cpu: cpu.parts, allocation: allocation.parts })
  return { gateway: raw(gateway), relay: raw(relay) }
}

async function profiled(subject: 'relay' | 'gateway', disk: string, calls: number) {
  const scene = await Scene.set(disk)
  try {
    const child = await scene.subject(subject)
    return {
      cpu: await profileCpu(scene, child, calls),
      allocation: await profileAllocation(scene, child, calls),
    }
  } finally {
    await scene.end()
  }
}

function divide(unit: string, gateway: Parts, relay: Parts): void {
  const total = sum(Object.values(gateway))
  const isSmall = (name: string) => (gateway[name] ?? 0) < MIN_SHARE * total
  const names = Object.keys(gateway).sort((a, b) => (gateway[b] ?? 0) - (gateway[a] ?? 0))
  const smaller = [...names.filter(isSmall), ...Object.keys(relay).filter((name) => !(name in gateway))]
  const row = (title: string, of: readonly string[]) => [
    title,
    ...[gateway, relay].map((parts) => sum(of.map((name) => parts[name] ?? 0)).toFixed(1)),
  ]
  table([
    [unit, 'gateway', 'relay'],
    ...names.filter((name) => !isSmall(name)).map((name) => row(name, [name])),
    row("the relay's own code, and smaller parts", smaller),
    row('together', Object.keys({ ...gateway, ...relay })),
  ])
}
