// The tools of a caller, or the callers of a tool, under the policy; and a switch per tool for operators.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Location } from '../../api.js'
import type { AccessJson, PolicyJson } from '../../policy-operations.js'
import { type Column, Table } from '../kit/table.js'
import { Untrusted } from '../kit/untrusted.js'
import { nameOf, type PolicyCaller, type PolicyData } from './load.js'
import { type ListedBlock, TurnedOff, useToolSwitches } from './tool-switch.js'

interface AccessProps {
  readonly data: PolicyData
  readonly location: Location
  readonly onChanged: () => void
}

type Row = AccessJson['tools'][number]

const MAX_ROWS = 300
/** Fewer are seen at once. */
const MIN_FILTERED = 12

export function Access({ data, location, onChanged }: AccessProps): JSX.Element {
  const { policy, access, blocks } = data
  const { button, dialog } = useToolSwitches(policy, onChanged)
  const query = new URLSearchParams(location.query)
  const [server, tool] = [query.get('server') ?? '', query.get('tool')]
  const switchOf = (of: string, name: string) =>
    button?.({ server: of, tool: name, block: blockOn(policy, blocks, of, name) })
  const [wanted, setWanted] = useState('')
  const found = (access?.tools ?? []).filter(({ server: of, tool: name, caller }) =>
    `${of}/${name} ${nameOf(caller)}`.toLowerCase().includes(wanted.trim().toLowerCase()),
  )
  const rows = found.slice(0, MAX_ROWS)
  const [known, calledOnly] = [false, true].map((only) => rows.filter((one) => one.called_only === only))
  const columns: readonly Column<Row>[] = [
    tool === null ? toolColumn : callerColumn,
    { name: 'Access', cell: (one) => <Verdict one={one} blocks={blocks} /> },
    { name: 'Limits', cell: ({ limits }) => <span class="note">{limits.join('; ')}</span> },
    ...(button === undefined || tool !== null
      ? []
      : [{ name: 'For everyone', cell: (one: Row) => switchOf(one.server, one.tool) }]),
  ]
  return (
    <>
      <div class="choices">
        <Choice policy={policy} chosen={access?.caller} />
        {(access?.tools ?? []).length > MIN_FILTERED && (
          <label>
            Filter{' '}
            <input
              type="search"
              aria-keyshortcuts="/"
              value={wanted}
              onInput={(event) => setWanted(event.currentTarget.value)}
            />
          </label>
        )}
      </div>
      {tool !== null && (
        <div class="lead tool-head">
          <h2>
            Who may call{' '}
            <span class="mono">
              <Untrusted text={`${server}/${tool}`} cut={160} />
            </span>
            ?
          </h2>
          {switchOf(server, tool)}
        </div>
      )}
      <div class="panel">
        {known !== undefined && known.length > 0 && (
          <Tools caption="Who may use what" columns={columns} rows={known} />
        )}
        {known?.length === 0 && rows.length > 0 && (
          <p class="none">
            No server lists {wanted === '' ? 'its tools' : 'such a tool'} to the gateway, and the policy names
            none.
          </p>
        )}
        {found.length > rows.length && (
          <p class="note" role="status">
            {rows.length} of {found.length.toLocaleString('en')} rows; the filter finds others.
          </p>
        )}
        {rows.length === 0 && wanted !== '' && <p class="none">Nothing matches the filter.</p>}
        {rows.length === 0 && wanted === '' && (
          <p class="none">
            No tool is known: no server lists its tools without a credential, the policy names none, and none
            was called.
          </p>
        )}
      </div>
      {calledOnly !== undefined && calledOnly.length > 0 && (
        <div class="panel">
          <h2>Called, not listed by its server</h2>
          <p class="note">
            The names are from calls of the last 24 hours; neither the server lists them to the gateway nor
            the policy names them, so some may not exist.
          </p>
          <Tools caption="Called, not listed by its server" columns={columns} rows={calledOnly} />
        </div>
      )}
      <p class="note">
        Whatever the verdict, limits, sizes, hosts and paths in arguments may refuse a call; “Try a call”
        judges one with its arguments.
      </p>
      {button !== undefined && (
        <p class="note">
          A switch narrows the policy for everyone, and is on record. What the policy denies is allowed by
          changing the policy.
        </p>
      )}
      {dialog}
    </>
  )
}

const toolColumn: Column<Row> = {
  name: 'Tool',
  cell: (one) => (
    <a class="mono" href={hrefOfTool(one)}>
      <Untrusted text={`${one.server}/${one.tool}`} cut={120} />
    </a>
  ),
}

const callerColumn: Column<Row> = {
  name: 'Caller',
  cell: ({ caller }) => <Untrusted text={nameOf(caller)} cut={120} />,
}

/** The block that refuses a tool for every caller. */
export function blockOn(
  { servers }: PolicyJson,
  blocks: readonly ListedBlock[],
  server: string,
  tool: string,
): ListedBlock | undefined {
  const off = servers.find((one) => one.server === server)?.off.find((one) => one.tool === tool)
  return blocks.find(({ id }) => id === off?.block)
}

function Tools({
  caption,
  columns,
  rows,
}: {
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
}): JSX.Element {
  return (
    <Table
      class="access"
      caption={caption}
      columns={columns}
      rows={rows}
      keyOf={(one) => `${keyOf(one.caller)} ${one.server}/${one.tool}`}
    />
  )
}

const verdicts: Readonly<Record<Row['verdict'], readonly [tone: string, text: string]>> = {
  allow: ['good', 'may call'],
  approval: ['warn', 'needs approval'],
  deny: ['bad', 'denied'],
  depends: ['warn', 'depends'],
  unknown: ['', 'unknown'],
}

function Verdict({
  one: { verdict, because, refused, called_only: isCalledOnly },
  blocks,
}: {
  readonly one: Row
  readonly blocks: readonly ListedBlock[]
}): JSX.Element {
  const block = blocks.find(({ id }) => refused === `blocked:${id}`)
  if (block !== undefined)
    return (
      <>
        <span class="badge bad">turned off</span> <TurnedOff block={block} />
      </>
    )
  const [tone, text] =
    verdict === 'allow' && isCalledOnly ? (['', 'allowed, if it exists'] as const) : verdicts[verdict]
  return (
    <>
      <span class={`badge ${tone}`}>{text}</span>
      {[...(refused === null ? [] : [refused]), ...because].map((why) => (
        <span key={why} class="note mono">
          {' '}
          <Untrusted text={why} cut={160} />
        </span>
      ))}
    </>
  )
}

/** Goes to the page of the chosen caller. */
function Choice({
  policy,
  chosen,
}: {
  readonly policy: PolicyJson
  readonly chosen: PolicyCaller | undefined
}): JSX.Element {
  return (
    <p class="choice">
      <label>
        What may{' '}
        <select
          onChange={(event) => {
            const caller = policy.callers[Number(event.currentTarget.value)]
            if (caller !== undefined)
              location.assign(`/console/policy/access?${new URLSearchParams({ ...caller })}`)
          }}
        >
          {chosen === undefined && <option selected>… choose a caller</option>}
          {policy.callers.map((caller, index) => (
            <option
              key={keyOf(caller)}
              value={index}
              selected={chosen !== undefined && keyOf(caller) === keyOf(chosen)}
            >
              {nameOf(caller)}
            </option>
          ))}
        </select>{' '}
        call?
      </label>
    </p>
  )
}

function keyOf({ tenant, kind, name }: PolicyCaller): string {
  return JSON.stringify([tenant, kind, name])
}

export function hrefOfTool({ server, tool }: Pick<Row, 'server' | 'tool'>): string {
  return `/console/policy/access?${new URLSearchParams({ server, tool })}`
}
