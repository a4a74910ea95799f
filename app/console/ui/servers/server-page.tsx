// One server: how it is reached and does, what changed, its tools and who calls them.
import type { JSX } from 'preact'
import { Copy } from '../kit/copy.js'
import { Untrusted } from '../kit/untrusted.js'
import { ClientPanel } from './client-panel.js'
import type { CallRoute, ServersData } from './load.js'
import { ReviewPanel } from './review-panel.js'
import { StateBadge } from './state-badge.js'

interface ServerPageProps {
  readonly data: ServersData
  readonly name: string
  readonly onChanged: () => void
}

const kinds = {
  stdio: 'a command, over stdio',
  mcp: 'an MCP server over HTTP',
  http: 'over HTTP',
} as const

export function ServerPage({ data, name, onChanged }: ServerPageProps): JSX.Element {
  const server = data.servers.find((one) => one.server === name)
  if (server === undefined) {
    return (
      <div class="empty">
        <h2>No such server</h2>
        <p>
          The policy in force has none of this name. <a href="/console/servers">All servers</a>
        </p>
      </div>
    )
  }
  const { kind, address, processes = 0, reason, changed } = server
  const routes = (data.routes ?? []).filter((route) => route.server === name)
  return (
    <div class="server-page">
      <section class="panel facts">
        <dl>
          <div>
            <dt>Kind</dt>
            <dd>{kinds[kind]}</dd>
          </div>
          <div>
            <dt>Address</dt>
            <dd>
              <Copy value={address} label="the address">
                <Untrusted text={address} cut={200} />
              </Copy>
            </dd>
          </div>
          <div>
            <dt>State</dt>
            <dd>
              {kind === 'stdio' ? (
                <>
                  <StateBadge server={{ ...server, changed: null }} />{' '}
                  {processes > 0 && `${processes} processes`}
                </>
              ) : (
                <Reached routes={routes} />
              )}
            </dd>
          </div>
          <div>
            <dt>Definitions</dt>
            <dd>
              {changed === null ? (
                <>
                  not pinned; <code>protections.definitions</code> pins them
                </>
              ) : changed === 0 ? (
                'as they were pinned'
              ) : (
                <span class="badge warn">{changed} changed</span>
              )}
            </dd>
          </div>
        </dl>
        {reason !== undefined && reason !== '' && (
          <p class="banner bad">
            <Untrusted text={reason} cut={400} />
          </p>
        )}
      </section>
      {data.review !== undefined && <ReviewPanel review={data.review} onAccepted={onChanged} />}
      <Tools server={name} names={data.tools} routes={routes} />
      <ClientPanel clients={data.clients} server={name} />
    </div>
  )
}

/** The gateway keeps no connection to a server over HTTP: its calls say how it does. */
function Reached({ routes }: { readonly routes: readonly CallRoute[] }): JSX.Element {
  const [sent, failed] = [sum(routes, 'allowed'), sum(routes, 'failed')]
  if (sent === 0) return <>not called in the last 24 hours</>
  return (
    <span class={failed === 0 ? 'good' : failed === sent ? 'bad' : 'warn'}>
      {failed === 0 ? 'no call failed' : `${failed.toLocaleString('en')} failed`} of{' '}
      {sent.toLocaleString('en')}
    </span>
  )
}

function sum(routes: readonly CallRoute[], name: 'allowed' | 'denied' | 'failed'): number {
  return routes.reduce((total, route) => total + route[name], 0)
}

interface ToolsProps {
  readonly server: string
  readonly names: readonly string[]
  readonly routes: readonly CallRoute[]
}

function Tools({ server, names, routes }: ToolsProps): JSX.Element {
  const tools = new Map<string, CallRoute[]>(names.map((name) => [name, []]))
  for (const route of routes) tools.set(route.tool, [...(tools.get(route.tool) ?? []), route])
  return (
    <section class="panel tools">
      <h2>Tools, and their calls of the last 24 hours</h2>
      {tools.size === 0 ? (
        <p class="none">The server lists none without a credential, and none was called.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Tool</th>
              <th scope="col" class="number">
                Sent
              </th>
              <th scope="col" class="number">
                Failed
              </th>
              <th scope="col" class="number">
                Denied
              </th>
              <th scope="col">Called by</th>
              <th scope="col">Access</th>
            </tr>
          </thead>
          <tbody>
            {[...tools].slice(0, 200).map(([tool, own]) => (
              <tr key={tool}>
                <td class="mono">
                  <a href={`/console/log?${new URLSearchParams({ server, tool })}`}>
                    <Untrusted text={tool} cut={100} />
                  </a>
                </td>
                <td class="number">{sum(own, 'allowed').toLocaleString('en')}</td>
                <td class="number">{sum(own, 'failed').toLocaleString('en')}</td>
                <td class="number">{sum(own, 'denied').toLocaleString('en')}</td>
                <td class="callers">
                  {own.slice(0, 3).map(({ tenant, caller }) => (
                    <span key={`${tenant} ${caller}`} class="badge">
                      <Untrusted text={caller === '' ? `nameless, of ${tenant}` : caller} cut={40} />
                    </span>
                  ))}
                  {own.length > 3 && `and ${own.length - 3} more`}
                </td>
                <td>
                  <a href={`/console/policy/access?${new URLSearchParams({ server, tool })}`}>
                    who may call it
                  </a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
