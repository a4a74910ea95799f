// node --expose-gc gateway-process.js URL: a gateway in its own process, which reports its memory and handles on request.
import { startTestGateway } from '../../support/gateway.js'

export interface Held {
  /** Bytes after a full collection. */
  readonly rss: number
  readonly heap: number
  /** The number of resources of each kind that keep the event loop alive, except those of the process itself. */
  readonly resources: Readonly<Record<string, number>>
}

const [url = ''] = process.argv.slice(2)
const gateway = await startTestGateway({
  targets: { server: url },
  server: { maxConnectionsPerAddress: 5_000 },
})

/** Resources of the process itself: writes of the log, ticks, and the pipes to the parent. */
const ofProcess: ReadonlySet<string> = new Set(['FSReqCallback', 'Immediate', 'PipeWrap'])

process.on('message', () => process.send?.(held()))
process.once('disconnect', () => void gateway[Symbol.asyncDispose]())
process.send?.(gateway.url)

function held(): Held {
  if (globalThis.gc === undefined) throw new Error('it needs --expose-gc')
  globalThis.gc()
  const { rss, heapUsed: heap } = process.memoryUsage()
  const resources: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) {
    if (!ofProcess.has(kind)) resources[kind] = (resources[kind] ?? 0) + 1
  }
  return { rss, heap, resources }
}
