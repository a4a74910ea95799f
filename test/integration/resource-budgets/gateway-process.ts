// node --expose-gc gateway-process.js SETTINGS: a gateway alone in its process, which says its URL, and on request what it
// has used since the last one.
import { existsSync, readFileSync } from 'node:fs'
import { startTestGateway } from '../../support/gateway.js'

/** The resources that the gateway has used. */
export interface Used {
  /** The longest turn of the event loop, in milliseconds: the shorter of its time and its CPU time. */
  readonly turnMs: number
  /** Bytes after a full collection. */
  readonly bytes: number
}

const { targets, oidc, preset } = JSON.parse(process.argv[2] ?? '{}')
const gateway = await startTestGateway({
  targets,
  federation: { servers: ['federated'] },
  authn: { oidc },
  ...(preset === undefined ? {} : { protections: { preset } }),
})

const intervalMs = 5
let turnMs = 0
let at = performance.now()
let cpu = cpuMs()
setInterval(() => {
  const now = performance.now()
  const used = cpuMs()
  // On a machine with other load a turn takes longer than it uses.
  turnMs = Math.max(turnMs, Math.min(now - at, used - cpu) - intervalMs)
  at = now
  cpu = used
}, intervalMs)

process.on('message', () => process.send?.(used()))
process.once('disconnect', () => void gateway[Symbol.asyncDispose]())
process.send?.(gateway.url)

function used(): Used {
  const longest = turnMs
  if (globalThis.gc === undefined) throw new Error('it needs --expose-gc')
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  turnMs = 0
  at = performance.now()
  cpu = cpuMs()
  return { turnMs: longest, bytes: heapUsed + external }
}

/** CPU time of this thread; without Linux, of the process. */
function cpuMs(): number {
  const statistics = `/proc/self/task/${process.pid}/schedstat`
  if (existsSync(statistics)) return Number(readFileSync(statistics, 'utf8').split(' ')[0]) / 1_000_000
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
