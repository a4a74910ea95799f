// The tools of a server: who may call each, what became of its calls, and its switch.
import type { JSX } from 'preact'
import { usePage } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'
import { blockOn, hrefOfTool, nameOf, SwitchButton } from '../policy/access.js'
import { useToolSwitch } from '../policy/tool-switch.js'
import type { CallRoute, ServersData } from './load.js'

interface ToolTableProps {
  readonly data: ServersData
  readonly server: string
  readonly onChanged: () => void
}

const MAX_SHOWN = 200

export function ToolTable({ data, server, onChanged }: ToolTableProps): JSX.Element {
  const { session } = usePage()
  const toolSwitch = useToolSwitch(onChanged)
  const { policy, access, blocks, routes = [] } = data
  const known = policy?.servers.find((one) => one.server === server)
  const tools = new Map<string, CallRoute[]>((known?.tools ?? []).map((name) => [name, []]))
  for (const route of routes) {
    if (route.server !== server || route.kind !== 'tool') continue
    tools.set(route.tool, [...(tools.get(route.tool) ?? []), route])
  }
  const isOneTenant = new Set(policy?.callers.map(({ tenant }) => tenant)).size < 2
  const callerName = (caller: (typeof access)[number]['caller']) => nameOf(caller, isOneTenant)
  const canSwitch = policy?.edit === true && session?.may.operate === true
  return (
    <section class="panel tools">
      <h2>Tools, who may call them, and their calls of the last 24 hours</h2>
      <p class="note">
        {known?.listed === true
          ? 'As the server lists them without a credential.'
          : 'The server does not list them to the gateway: these are named in the policy, or were called.'}
      </p>
      {tools.size === 0 ? (
        <p class="none">None is known: the policy names none, and none was called.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Tool</th>
              <th scope="col">May call it</th>
              {['Sent', 'Failed', 'Denied'].map((name) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
              <th scope="col">Called by</th>
              {canSwitch && <th scope="col">For everyone</th>}
            </tr>
          </thead>
          <tbody>
            {[...tools].slice(0, MAX_SHOWN).map(([tool, own]) => {
              const block = policy && blockOn(policy, blocks, server, tool)
              return (
                <tr key={tool}>
                  <td class="mono">
                    <a href={`/console/log?${new URLSearchParams({ server, tool })}`}>
                      <Untrusted text={tool} cut={100} />
                    </a>
                  </td>
                  <td>
                    {block !== undefined && <span class="badge bad">turned off</span>}
                    {block === undefined && (
                      <Callers
                        names={access.flatMap((one) =>
                          one.tool === tool && one.refused === null ? [callerName(one.caller)] : [],
                        )}
                        href={hrefOfTool({ server, tool })}
                      />
                    )}
                  </td>
                  {(['allowed', 'failed', 'denied'] as const).map((name) => (
                    <td key={name} class="number">
                      <span class={toneOf(name, callsIn(own, name))}>
                        {callsIn(own, name).toLocaleString('en')}
                      </span>
                    </td>
                  ))}
                  <td class="callers">
                    <Untrusted
                      text={own
                        .slice(0, 2)
                        .map(({ tenant, caller }) => (caller === '' ? `nameless, of ${tenant}` : caller))
                        .join(', ')}
                      cut={80}
                    />
                    {own.length > 2 && ` and ${own.length - 2} more`}
                  </td>
                  {canSwitch && (
                    <td>
                      <SwitchButton
                        block={block}
                        onClick={() => toolSwitch.open({ server, tool, ...(block && { block }) })}
                      />
                    </td>
                  )}
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
      {tools.size > MAX_SHOWN && (
        <p class="note">
          The first {MAX_SHOWN} of {tools.size.toLocaleString('en')} tools.
        </p>
      )}
      {toolSwitch.dialog}
    </section>
  )
}

/** The first of those who may call a tool, with a link to all. */
function Callers({ names, href }: { readonly names: readonly string[]; readonly href: string }): JSX.Element {
  if (names.length === 0)
    return (
      <a href={href} class="bad">
        nobody
      </a>
    )
  return (
    <a href={href}>
      <Untrusted text={names.slice(0, 2).join(', ')} cut={60} />
      {names.length > 2 && ` and ${names.length - 2} more`}
    </a>
  )
}

function toneOf(name: 'allowed' | 'failed' | 'denied', count: number): string | undefined {
  if (count === 0) return 'soft'
  return name === 'allowed' ? undefined : name === 'failed' ? 'warn' : 'bad'
}

export function callsIn(routes: readonly CallRoute[], name: 'allowed' | 'denied' | 'failed'): number {
  return routes.reduce((total, route) => total + route[name], 0)
}
