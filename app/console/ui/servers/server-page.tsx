// One server: how it is reached, its state, its changes, and its tools with their callers.
import type { JSX } from 'preact'
import { Copy } from '../kit/copy.js'
import { Untrusted } from '../kit/untrusted.js'
import { ClientPanel } from './client-panel.js'
import type { CallSums, ServersData } from './load.js'
import { ReviewPanel } from './review-panel.js'
import { StateBadge } from './state-badge.js'
import { callsIn, ToolTable } from './tool-table.js'

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
  const pairs = (data.calls?.pairs ?? []).filter((pair) => pair.server === name)
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
                  {processes > 0 && `${processes} process${processes === 1 ? '' : 'es'}`}
                </>
              ) : (
                <Reached pairs={pairs} />
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
      <ToolTable data={data} server={name} onChanged={onChanged} />
      <ClientPanel clients={data.clients} server={name} />
    </div>
  )
}

/** The gateway keeps no connection to a server over HTTP, so its calls show its state. */
function Reached({ pairs }: { readonly pairs: CallSums['pairs'] }): JSX.Element {
  const [sent, failed] = [callsIn(pairs, 'allowed'), callsIn(pairs, 'failed')]
  if (sent === 0) return <>not called in the last 24 hours</>
  return (
    <span class={failed === 0 ? 'good' : failed === sent ? 'bad' : 'warn'}>
      {failed === 0 ? 'none' : failed.toLocaleString('en')} of {sent.toLocaleString('en')}{' '}
      {sent === 1 ? 'call' : 'calls'} failed
    </span>
  )
}
