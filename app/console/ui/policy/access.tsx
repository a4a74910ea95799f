// Who may use what: the tools of a caller, or the callers of a tool; and a switch per tool for operators.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Location } from '../../api.js'
import type { AccessJson, PolicyJson } from '../../policy-operations.js'
import { usePage } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'
import type { PolicyData } from './load.js'
import { type KeptBlock, TurnedOff, useToolSwitch } from './tool-switch.js'

interface AccessProps {
  readonly data: PolicyData
  readonly location: Location
  readonly onChanged: () => void
}

const MAX_ROWS = 300
/** Fewer are seen at once. */
const MIN_FILTERED = 12

export function Access({ data, location, onChanged }: AccessProps): JSX.Element {
  const { session } = usePage()
  const { policy, access, blocks } = data
  const toolSwitch = useToolSwitch(onChanged)
  const query = new URLSearchParams(location.query)
  const [server, tool] = [query.get('server') ?? '', query.get('tool')]
  const canSwitch = policy.edit && session?.may.operate === true
  const blockOf = (of: string, name: string) => blockOn(policy, blocks, of, name)
  const switchOf = (of: string, name: string) => {
    const block = blockOf(of, name)
    return (
      <SwitchButton
        block={block}
        onClick={() => toolSwitch.open({ server: of, tool: name, ...(block && { block }) })}
      />
    )
  }
  const [wanted, setWanted] = useState('')
  const found = (access?.tools ?? []).filter(({ server: of, tool: name, caller }) =>
    `${of}/${name} ${nameOf(caller)}`.toLowerCase().includes(wanted.trim().toLowerCase()),
  )
  const rows = found.slice(0, MAX_ROWS)
  return (
    <>
      <div class="choices">
        <Choice policy={policy} chosen={access?.caller} />
        {(access?.tools ?? []).length > MIN_FILTERED && (
          <label>
            Filter{' '}
            <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
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
          {canSwitch && switchOf(server, tool)}
        </div>
      )}
      <div class="panel">
        <table class="access">
          <thead>
            <tr>
              <th scope="col">{tool === null ? 'Tool' : 'Caller'}</th>
              <th scope="col">Access</th>
              <th scope="col">Limits</th>
              {canSwitch && tool === null && <th scope="col">For everyone</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={`${keyOf(one.caller)} ${one.server}/${one.tool}`}>
                <td>
                  {tool === null ? (
                    <a class="mono" href={hrefOfTool(one)}>
                      <Untrusted text={`${one.server}/${one.tool}`} cut={120} />
                    </a>
                  ) : (
                    <Untrusted text={nameOf(one.caller)} cut={120} />
                  )}
                </td>
                <td>
                  <Refused refused={one.refused} blocks={blocks} />
                </td>
                <td class="note">{one.limits.join('; ')}</td>
                {canSwitch && tool === null && <td>{switchOf(one.server, one.tool)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
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
      {canSwitch && (
        <p class="note">
          A switch narrows the policy for everyone, and is on record. What the policy denies is allowed by
          changing the policy.
        </p>
      )}
      {toolSwitch.dialog}
    </>
  )
}

/** The block that refuses a tool for every caller. */
export function blockOn(
  { servers }: PolicyJson,
  blocks: readonly KeptBlock[],
  server: string,
  tool: string,
): KeptBlock | undefined {
  const off = servers.find((one) => one.server === server)?.off.find((one) => one.tool === tool)
  return blocks.find(({ id }) => id === off?.block)
}

export function SwitchButton({
  block,
  onClick,
}: {
  readonly block: KeptBlock | undefined
  readonly onClick: () => void
}): JSX.Element {
  return (
    <button type="button" onClick={onClick}>
      {block === undefined ? 'Turn off…' : 'Turn on…'}
    </button>
  )
}

function Refused({
  refused,
  blocks,
}: {
  readonly refused: string | null
  readonly blocks: readonly KeptBlock[]
}): JSX.Element {
  if (refused === null) return <span class="badge good">may call</span>
  const block = blocks.find(({ id }) => refused === `blocked:${id}`)
  if (block !== undefined)
    return (
      <>
        <span class="badge bad">turned off</span> <TurnedOff block={block} />
      </>
    )
  return (
    <>
      <span class="badge bad">denied</span>{' '}
      <span class="note mono">
        <Untrusted text={refused} cut={80} />
      </span>
    </>
  )
}

type Caller = PolicyJson['callers'][number]

/** Goes to the page of the chosen caller. */
function Choice({
  policy,
  chosen,
}: {
  readonly policy: PolicyJson
  readonly chosen: Caller | undefined
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

function keyOf({ tenant, kind, name }: Caller): string {
  return JSON.stringify([tenant, kind, name])
}

/** `role support of acme`; without the tenant if there is only one. */
export function nameOf({ tenant, kind, name }: Caller, isOneTenant = false): string {
  const who = kind === 'anyone' ? 'anyone' : `${kind.replace('_', ' ')} ${name}`
  return isOneTenant ? who : `${who} of ${tenant}`
}

export function hrefOfTool({ server, tool }: Pick<AccessJson['tools'][number], 'server' | 'tool'>): string {
  return `/console/policy/access?${new URLSearchParams({ server, tool })}`
}
