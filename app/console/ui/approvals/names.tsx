// Who wants a call, and with which values.
import { Fragment, type JSX } from 'preact'
import { Untrusted } from '../kit/untrusted.js'

interface NamesProps {
  readonly agent: string | undefined
  readonly caller: string
  /** As in `Untrusted`. */
  readonly isCell?: boolean
}

/** The agent's name is its own word; that of the caller is from its token. */
export function Names({ agent, caller, isCell = false }: NamesProps): JSX.Element {
  return (
    <>
      {agent !== undefined && agent !== caller && (
        <>
          <strong title="the agent, as it names itself">
            <Untrusted text={agent} cut={isCell ? 24 : 60} isCell={isCell} />
          </strong>
          {' for '}
        </>
      )}
      <strong title="the caller, by its token">
        <Untrusted text={caller} cut={80} isCell={isCell} />
      </strong>
    </>
  )
}

export function Values({
  values,
}: {
  readonly values: readonly (readonly [name: string, value: string])[]
}): JSX.Element {
  return (
    <>
      {values.map(([name, value], at) => (
        <Fragment key={name}>
          {at > 0 && ', '}
          <Untrusted text={name} />{' '}
          <b>
            <Untrusted text={value} />
          </b>
        </Fragment>
      ))}
    </>
  )
}
