// The state of a server, as a word and a colour, and whether its definitions changed.
import type { JSX } from 'preact'
import type { ServersJson } from '../../server-operations.js'

type Server = ServersJson['servers'][number]

const states: Readonly<Record<Server['state'], readonly [tone: string, word: string]>> = {
  up: ['good', 'running'],
  starting: ['warn', 'starting'],
  idle: ['', 'not started'],
  down: ['bad', 'down'],
  unknown: ['', ''],
}

export function StateBadge({ server: { state, changed } }: { readonly server: Server }): JSX.Element {
  const [tone, word] = states[state]
  return (
    <>
      {word !== '' && <span class={`badge ${tone}`}>{word}</span>}
      {changed !== null && changed > 0 && <span class="badge warn">{changed} changed</span>}
    </>
  )
}
