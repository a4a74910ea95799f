// The servers of the policy: the graph of who calls them, or one of them.
import type { JSX } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { CallsEvent } from '../../events/operation.js'
import type { ServersJson } from '../../server-operations.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useConnection, useEvents } from '../kit/events.js'
import { usePage } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { ClientPanel } from './client-panel.js'
import { CallerName, ServerGraph } from './graph.js'
import { graphOf } from './graph-model.js'
import { chosenServer, loadServers, type ServersData, withCalls } from './load.js'
import { ServerPage } from './server-page.js'

/** How often the state of servers is read, and the counts, to which calls are added meanwhile. */
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
    // A call that came meanwhile may be missing in what was read.
    if (missed.current) await reload()
    isReading.current = missed.current = false
  }, [reload])
  useEffect(() => {
    // Of the calls before, no event came.
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
          // The next reading of the counts shows the error.
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
      set((old) => (old.routes === undefined ? old : { ...old, routes: withCalls(old.routes, event) }))
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
  for (const { kind, tenant, caller, agent = '', server, decision } of rows) {
    if (kind === 'event') continue
    beat(`callers ${JSON.stringify([tenant, caller === '' ? agent : caller])}`)
    if (decision === 'allow') beat(`servers ${server}`)
  }
  return beats
}

/** What the graph shows, for those who read. */
function EdgeTable({ data }: { readonly data: ServersData }): JSX.Element {
  const { callers, servers, edges } = graphOf(data)
  return (
    <details class="panel edge-table">
      <summary>The graph as a table</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">Caller</th>
            <th scope="col">Server</th>
            {['Sent', 'Failed', 'Denied', 'Waiting'].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {edges.map((edge) => {
            const caller = callers.find(({ key }) => key === edge.caller)
            const server = servers.find(({ key }) => key === edge.server)
            return (
              <tr key={`${edge.caller} ${edge.server}`}>
                <td>{caller !== undefined && <CallerName node={caller} />}</td>
                <td>
                  {server?.others === undefined ? (
                    <Untrusted text={server?.name ?? ''} cut={60} />
                  ) : (
                    `${server.others} other servers`
                  )}
                </td>
                {[edge.sent, edge.failed, edge.denied, edge.waiting].map((count, index) => (
                  <td key={index} class="number">
                    {count.toLocaleString('en')}
                  </td>
                ))}
              </tr>
            )
          })}
        </tbody>
      </table>
    </details>
  )
}
