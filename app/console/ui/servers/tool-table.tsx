// The tools of a server: the callers of each, the results of its calls, and its switch.
import type { JSX } from 'preact'
import { type Column, Table } from '../kit/table.js'
import { Untrusted } from '../kit/untrusted.js'
import { blockOn, hrefOfTool } from '../policy/access.js'
import { nameOf } from '../policy/load.js'
import { useToolSwitches } from '../policy/tool-switch.js'
import type { CallRoute, ServersData } from './load.js'

interface ToolTableProps {
  readonly data: ServersData
  readonly server: string
  readonly onChanged: () => void
}

/** A tool and its callers. */
type Row = readonly [tool: string, routes: readonly CallRoute[]]

const MAX_SHOWN = 200

const counts = (
  [
    ['Sent', 'allowed'],
    ['Failed', 'failed'],
    ['Denied', 'denied'],
  ] as const
).map(
  ([name, counted]): Column<Row> => ({
    name,
    class: 'number',
    cell: ([, routes]) => {
      const count = callsIn(routes, counted)
      return <span class={toneOf(counted, count)}>{count.toLocaleString('en')}</span>
    },
  }),
)

export function ToolTable({ data, server, onChanged }: ToolTableProps): JSX.Element {
  const { policy, access, blocks, calls } = data
  const { button, dialog } = useToolSwitches(policy, onChanged)
  const known = policy?.servers.find((one) => one.server === server)
  const tools = new Map<string, CallRoute[]>((known?.tools ?? []).map((name) => [name, []]))
  for (const route of calls?.routes ?? []) {
    if (route.server !== server || route.kind !== 'tool') continue
    tools.set(route.tool, [...(tools.get(route.tool) ?? []), route])
  }
  const isOneTenant = new Set(policy?.callers.map(({ tenant }) => tenant)).size < 2
  const callerName = (caller: (typeof access)[number]['caller']) => nameOf(caller, isOneTenant)
  const blockOf = (tool: string) => policy && blockOn(policy, blocks, server, tool)
  const columns: readonly Column<Row>[] = [
    {
      name: 'Tool',
      class: 'mono',
      cell: ([tool]) => (
        <a href={`/console/log?${new URLSearchParams({ server, tool })}`}>
          <Untrusted text={tool} cut={100} />
        </a>
      ),
    },
    {
      name: 'Not denied to',
      cell: ([tool]) =>
        blockOf(tool) === undefined ? (
          <Callers
            names={access.flatMap((one) =>
              one.tool === tool && one.verdict !== 'deny' ? [callerName(one.caller)] : [],
            )}
            href={hrefOfTool({ server, tool })}
          />
        ) : (
          <span class="badge bad">turned off</span>
        ),
    },
    ...counts,
    { name: 'Called by', class: 'callers', cell: ([, own]) => <CalledBy routes={own} /> },
    ...(button === undefined
      ? []
      : [{ name: 'For everyone', cell: ([tool]: Row) => button({ server, tool, block: blockOf(tool) }) }]),
  ]
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
        <Table
          caption="Tools"
          columns={columns}
          rows={[...tools].slice(0, MAX_SHOWN)}
          keyOf={([tool]) => tool}
        />
      )}
      {tools.size > MAX_SHOWN && (
        <p class="note">
          The first {MAX_SHOWN} of {tools.size.toLocaleString('en')} tools.
        </p>
      )}
      {calls?.routes_more === true && (
        <p class="note">
          Calls of so many callers and tools are not all counted here: a tool may have more, and others may
          have been called.
        </p>
      )}
      {dialog}
    </section>
  )
}

/** The first callers that may call a tool, with a link to all. */
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

function CalledBy({ routes }: { readonly routes: readonly CallRoute[] }): JSX.Element {
  const names = routes.map(({ caller }) => caller)
  return (
    <>
      <Untrusted text={names.slice(0, 2).join(', ')} cut={80} />
      {names.length > 2 && ` and ${names.length - 2} more`}
    </>
  )
}

function toneOf(name: 'allowed' | 'failed' | 'denied', count: number): string | undefined {
  if (count === 0) return 'soft'
  return name === 'allowed' ? undefined : name === 'failed' ? 'warn' : 'bad'
}

export function callsIn<Name extends 'allowed' | 'denied' | 'failed'>(
  counted: readonly Readonly<Record<Name, number>>[],
  name: Name,
): number {
  return counted.reduce((total, one) => total + one[name], 0)
}
