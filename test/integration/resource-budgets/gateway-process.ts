// node --expose-gc gateway-process.js TARGETS OIDC: a gateway alone in its process, which says its URL, and on request what it
// has used since the last one.
import { startTestGateway } from '../../support/gateway.js'

/** The resources that the gateway has used. */
export interface Used {
  /** The longest turn of the event loop, in milliseconds: the shorter of its time and its CPU time. */
  readonly turnMs: number
  /** Bytes after a full collection. */
  readonly bytes: number
}

const [targets = '{}', oidc = '{}'] = process.argv.slice(2)
const gateway = await startTestGateway({
  targets: JSON.parse(targets),
  federation: { servers: ['federated'] },
  authn: { oidc: JSON.parse(oidc) },
})

const intervalMs = 5
let turnMs = 0
let at = performance.now()
let cpu = process.cpuUsage()
setInterval(() => {
  const now = performance.now()
  const { user, system } = process.cpuUsage(cpu)
  // On a machine with other load a turn takes longer than it uses; other threads use more than a turn takes.
  turnMs = Math.max(turnMs, Math.min(now - at, (user + system) / 1_000) - intervalMs)
  at = now
  cpu = process.cpuUsage()
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
  cpu = process.cpuUsage()
  return { turnMs: longest, bytes: heapUsed + external }
}
