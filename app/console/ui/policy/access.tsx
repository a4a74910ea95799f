// Who may use what: the tools of a caller, or the callers of a tool; and a switch per tool for operators.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { Location } from '../../api.js'
import type { AccessJson, PolicyJson } from '../../policy-operations.js'
import { usePage } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'
import type { PolicyData } from './load.js'
import { ToolSwitch } from './tool-switch.js'

interface AccessProps {
  readonly data: PolicyData
  readonly location: Location
  readonly onChanged: () => void
}

export function Access({ data, location, onChanged }: AccessProps): JSX.Element {
  const { session } = usePage()
  const { policy, access, blocks } = data
  const [switched, setSwitched] = useState<{ readonly server: string; readonly tool: string } | undefined>()
  const query = new URLSearchParams(location.query)
  const tool = query.get('tool')
  const canSwitch = policy.edit && session?.may.operate === true
  const blockOf = (server: string, name: string) =>
    blocks.find((block) => block.kind === 'tool' && block.pattern === `${server}/${name}`)
  return (
    <>
      <Choice policy={policy} chosen={access?.caller} />
      {tool !== null && (
        <p class="lead">
          Who may call{' '}
          <span class="mono">
            <Untrusted text={`${query.get('server') ?? ''}/${tool}`} cut={160} />
          </span>
        </p>
      )}
      <div class="panel">
        <table>
          <thead>
            <tr>
              <th scope="col">{tool === null ? 'Tool' : 'Caller'}</th>
              <th scope="col">Access</th>
              <th scope="col">Limits</th>
              {canSwitch && <th scope="col">Switch</th>}
            </tr>
          </thead>
          <tbody>
            {(access?.tools ?? []).map((one) => {
              const block = blockOf(one.server, one.tool)
              return (
                <tr key={`${keyOf(one.caller)} ${one.server}/${one.tool}`}>
                  <td>
                    {tool === null ? (
                      <a class="mono" href={hrefOf(one)}>
                        <Untrusted text={`${one.server}/${one.tool}`} cut={120} />
                      </a>
                    ) : (
                      <Untrusted text={nameOf(one.caller)} cut={120} />
                    )}
                  </td>
                  <td>
                    {block !== undefined ? (
                      <span class="badge bad">turned off</span>
                    ) : one.refused === null ? (
                      <span class="badge good">may call</span>
                    ) : (
                      <>
                        <span class="badge bad">denied</span>{' '}
                        <span class="note mono">
                          <Untrusted text={one.refused} cut={80} />
                        </span>
                      </>
                    )}
                  </td>
                  <td class="note">{one.limits.join('; ')}</td>
                  {canSwitch && (
                    <td>
                      <button
                        type="button"
                        aria-pressed={block === undefined}
                        onClick={() => setSwitched({ server: one.server, tool: one.tool })}
                      >
                        {block === undefined ? 'Turn off…' : 'Turn on…'}
                      </button>
                    </td>
                  )}
                </tr>
              )
            })}
          </tbody>
        </table>
        {(access?.tools ?? []).length === 0 && (
          <p class="none">
            No tool is known: no server lists its tools without a credential, and none was called.
          </p>
        )}
      </div>
      {switched !== undefined && (
        <ToolSwitch
          {...switched}
          block={blockOf(switched.server, switched.tool)}
          onEnd={(isChanged) => {
            setSwitched(undefined)
            if (isChanged) onChanged()
          }}
        />
      )}
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

export function nameOf({ tenant, kind, name }: Caller): string {
  return kind === 'anyone' ? `anyone of ${tenant}` : `${kind.replace('_', ' ')} ${name} of ${tenant}`
}

function hrefOf({ server, tool }: AccessJson['tools'][number]): string {
  return `/console/policy/access?${new URLSearchParams({ server, tool })}`
}
