// The entry for this gateway in a client's configuration, to copy.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ClientsJson } from '../../server-operations.js'
import { Copy } from '../kit/copy.js'
import { Untrusted } from '../kit/untrusted.js'

interface ClientPanelProps {
  readonly clients: ClientsJson
  /** Undefined: the reader chooses. */
  readonly server: string | undefined
}

export function ClientPanel({
  clients: { servers, is_public: isPublic },
  server,
}: ClientPanelProps): JSX.Element {
  const [at, setAt] = useState(0)
  const [client, setClient] = useState('')
  const shown = server === undefined ? servers[at] : servers.find(({ name }) => name === server)
  const found = shown?.clients.find((one) => one.client === client) ?? shown?.clients[0]
  return (
    <section class="panel clients">
      <h2>Connect a client</h2>
      <p class="choices">
        {server === undefined && (
          <label>
            Server
            <select onChange={(event) => setAt(Number(event.currentTarget.value))}>
              {servers.map(({ name }, index) => (
                <option key={name} value={index} selected={index === at}>
                  {name === '' ? 'all servers as one' : name.slice(0, 80)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          Client
          <select onChange={(event) => setClient(event.currentTarget.value)}>
            {shown?.clients.map((one) => (
              <option key={one.client} value={one.client} selected={one.client === found?.client}>
                {one.client}
              </option>
            ))}
          </select>
        </label>
      </p>
      {found !== undefined && (
        <>
          <p class="place">
            <span>
              In <code>{found.file}</code>
            </span>
            <Copy value={found.text} label={`the configuration of ${found.client}`}>
              Copy
            </Copy>
          </p>
          <pre class="configuration">
            <Untrusted text={found.text} cut={4000} isBlock />
          </pre>
        </>
      )}
      {!isPublic && (
        <p class="note">
          This address is for clients on the gateway’s machine. Set <code>server.publicUrl</code> to the one
          under which others reach it.
        </p>
      )}
    </section>
  )
}
