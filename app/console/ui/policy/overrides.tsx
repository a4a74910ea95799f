// The tools that operators have turned off beside the policy; each can be turned on again.
import type { JSX } from 'preact'
import { Untrusted } from '../kit/untrusted.js'
import type { PolicyData } from './load.js'
import { type KeptBlock, TurnedOff, useToolSwitches } from './tool-switch.js'

interface OverridesProps {
  readonly data: PolicyData
  readonly onChanged: () => void
}

export function Overrides({ data: { policy, blocks }, onChanged }: OverridesProps): JSX.Element | null {
  const { button, dialog } = useToolSwitches(policy, onChanged)
  if (blocks.length === 0) return null
  return (
    <section class="panel overrides">
      <h2>Turned off over the policy</h2>
      <ul>
        {blocks.map((block) => (
          <li key={block.id}>
            <div>
              <span class="badge bad">{block.kind === 'principal' ? 'blocked' : 'off'}</span>{' '}
              {kinds[block.kind]}
              <strong class="mono">
                <Untrusted text={block.pattern} cut={120} />
              </strong>
              <TurnedOff block={block} />
            </div>
            {block.kind !== 'principal' && button?.({ ...toolOf(block), block })}
          </li>
        ))}
      </ul>
      {dialog}
    </section>
  )
}

const kinds: Readonly<Record<KeptBlock['kind'], string>> = {
  tool: 'tool ',
  server: 'server ',
  principal: 'caller ',
}

/** The tool, if the block is on one alone. */
function toolOf({ kind, pattern }: KeptBlock): { readonly server?: string; readonly tool?: string } {
  const at = pattern.indexOf('/')
  if (kind !== 'tool' || pattern.includes('*') || at < 0) return {}
  return { server: decodeURIComponent(pattern.slice(0, at)), tool: decodeURIComponent(pattern.slice(at + 1)) }
}
