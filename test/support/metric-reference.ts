// The metrics of docs/reference/metrics.md, which is generated from those that the gateway and the stages declare.
import { readFileSync } from 'node:fs'

interface ReferenceEntry {
  readonly name: string
  readonly kind: string
}

const page = readFileSync(new URL('../../../docs/reference/metrics.md', import.meta.url), 'utf8')
const [ofGateway = '', ofStages = ''] = page.split('## The stages')

function entriesOf(text: string): ReferenceEntry[] {
  return [...text.matchAll(/^\| `(svc_\w+)` *\| (\w+)/gm)].map(([, name = '', kind = '']) => ({ name, kind }))
}

export const stageMetrics: readonly ReferenceEntry[] = entriesOf(ofStages)
export const allMetrics: readonly ReferenceEntry[] = [...entriesOf(ofGateway), ...stageMetrics]
