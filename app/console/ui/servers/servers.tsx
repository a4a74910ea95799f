// The servers of the policy: the graph of who calls them, or one of them.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { CallsEvent } from '../../events/event-schemas.js'
import type { ServersJson } from '../../server-operations.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useConnection, useEvents } from '../kit/events.js'
import { usePage } from '../kit/page.js'
import { type Column, Table } from '../kit/table.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { ClientPanel } from './client-panel.js'
import { CallerName, ServerGraph } from './graph.js'
import { type GraphEdge, graphOf } from './graph-model.js'
import { chosenServer, loadServers, type ServersData, withCalls } from './load.js'
import { ServerPage } from './server-page.js'

/** Time between two readings of the servers' state, and of the counts, to which calls are added meanwhile. */
const STATE_MS = 5_000
const COUNTS_MS = 60_000

export function ServerPages({ data: initial, location }: ViewProps<ServersData>): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload, set } = useLoaded(initial, now, () => loadServers(api, location))
  const [beats, setBeats] = useState<ReadonlyMap<string, number>>(new Map())
  const chosen = chosenServer(location)
  const connection = useConnection()
  const [isReading, missed] = [useRef(false), useRef(false)]
  const read = useCallback(async () => {
    isReading.current = true
    await reload()
    // A call that came meanwhile may be missing in the counts that were read.
    if (missed.current) await reload()
    isReading.current = missed.current = false
  }, [reload])
  useEffect(() => {
    // No event came for calls before the connection was open.
    if (connection === 'open') void read()
  }, [connection, read])
  useEffect(() => {
    const whenSeen = (run: () => Promise<void>) => () => void (document.hidden ? undefined : run())
    const counts = setInterval(whenSeen(read), COUNTS_MS)
    const states = setInterval(
      whenSeen(async () => {
        try {
          const found = await api.get<ServersJson>('/api/servers')
          set((old) => ({ ...old, ...found }))
        } catch {
          // This reading shows the error.
          await read()
        }
      }),
      STATE_MS,
    )
    return () => [counts, states].forEach(clearInterval)
  }, [api, read, set])
  useEvents({
    calls(event) {
      if (event.is_backfill) return
      missed.current = isReading.current
      set((old) => (old.calls === undefined ? old : { ...old, calls: withCalls(old.calls, event) }))
      setBeats((old) => withBeats(old, event))
    },
    escalations: () => void read(),
  })
  return (
    <section class="servers">
      {chosen === undefined ? (
        <h1 class="title">Servers</h1>
      ) : (
        <h1 class="title">
          <a href="/console/servers">Servers</a> / <Untrusted text={chosen} cut={100} />
        </h1>
      )}
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        {chosen === undefined ? (
          <>
            <ServerGraph data={data} beats={beats} />
            <EdgeTable data={data} />
            <ClientPanel clients={data.clients} server={undefined} />
          </>
        ) : (
          <ServerPage data={data} name={chosen} onChanged={() => void reload()} />
        )}
      </ErrorBanner>
    </section>
  )
}

function withBeats(old: ReadonlyMap<string, number>, { rows }: CallsEvent): ReadonlyMap<string, number> {
  const beats = new Map(old)
  const beat = (key: string) => beats.set(key, (old.get(key) ?? 0) + 1)
  for (const { kind, tenant, caller, server, decision } of rows) {
    if (kind === 'event') continue
    beat(`callers ${JSON.stringify([tenant, caller])}`)
    if (decision === 'allow') beat(`servers ${server}`)
  }
  return beats
}

/** The content of the graph as text, for screen readers. */
function EdgeTable({ data }: { readonly data: ServersData }): JSX.Element {
  const { callers, servers, edges } = graphOf(data)
  const count = (name: string, of: (edge: GraphEdge) => number): Column<GraphEdge> => ({
    name,
    class: 'number',
    cell: (edge) => of(edge).toLocaleString('en'),
  })
  const columns: readonly Column<GraphEdge>[] = [
    {
      name: 'Caller',
      cell: (edge) => {
        const caller = callers.find(({ key }) => key === edge.caller)
        return caller && <CallerName node={caller} />
      },
    },
    {
      name: 'Server',
      cell: (edge) => {
        const server = servers.find(({ key }) => key === edge.server)
        return server?.others === undefined ? (
          <Untrusted text={server?.name ?? ''} cut={60} />
        ) : (
          `${server.others} other servers`
        )
      },
    },
    count('Sent', ({ sent }) => sent),
    count('Failed', ({ failed }) => failed),
    count('Denied', ({ denied }) => denied),
    count('Waiting', ({ waiting }) => waiting),
  ]
  return (
    <details class="panel edge-table">
      <summary>The graph as a table</summary>
      <Table
        caption="Calls of the last 24 hours, by caller and server"
        columns={columns}
        rows={edges}
        keyOf={({ caller, server }) => `${caller} ${server}`}
      />
    </details>
  )
}
