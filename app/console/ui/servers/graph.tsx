// The graph: callers, the gateway, servers. Sent calls go through; denied and waiting ones end at the gateway.
import { ANONYMOUS } from '@svc/plugin-audit/browser'
import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Untrusted } from '../kit/untrusted.js'
import { type Counts, type Graph, type GraphNode, graphOf } from './graph-model.js'
import { hrefOfServer, type ServersData } from './load.js'
import { StateBadge } from './state-badge.js'

interface Layout {
  /** Height of a node, and of the ends of all edges at the gateway, as in the stylesheet. */
  readonly row: number
  readonly fan: number
  /** The widest edge, and the distance between two of one caller. */
  readonly width: number
  readonly shift: number
}

const roomy: Layout = { row: 60, fan: 98, width: 7, shift: 4 }
/** The layout of many nodes: a name and its numbers are on one line. */
const compact: Layout = { row: 32, fan: 300, width: 4, shift: 3 }
const MAX_ROOMY = 7
const MAX_STEP = 14

export interface GraphProps {
  readonly data: ServersData
  /** Keys of edges with calls that have just happened, `caller server`, and how often. */
  readonly beats: ReadonlyMap<string, number>
}

type Side = 'callers' | 'servers'
interface Chosen {
  readonly side: Side
  readonly key: string
}

export function ServerGraph({ data, beats }: GraphProps): JSX.Element {
  const [chosen, setChosen] = useState<Chosen | undefined>()
  const graph = graphOf(data)
  const linked = linkedTo(graph, chosen)
  const rows = Math.max(graph.callers.length, graph.servers.length, 3)
  const layout = rows > MAX_ROOMY ? compact : roomy
  const height = rows * layout.row
  const edges = { graph, height, layout, linked, beats }
  const nodeProps = (side: Side, { key }: GraphNode) => ({
    isDim: linked !== undefined && !linked[side].has(key),
    on: {
      onMouseEnter: () => setChosen({ side, key }),
      onMouseLeave: () => setChosen(undefined),
      onFocusIn: () => setChosen({ side, key }),
      onFocusOut: () => setChosen(undefined),
    },
  })
  return (
    <figure class={layout === compact ? 'graph compact panel' : 'graph panel'}>
      <div class="graph-columns">
        <div class="column">
          <h2>Callers</h2>
          <ul class="nodes">
            {graph.callers.map((node) => (
              <Node key={node.key} node={node} {...nodeProps('callers', node)} href={hrefOfCaller(node)}>
                <span class="name">
                  <CallerName node={node} />
                </span>
                <Numbers counts={node} />
              </Node>
            ))}
            {graph.callers.length === 0 && <li class="none">Nobody called in the last 24 hours.</li>}
          </ul>
        </div>
        <Edges side="callers" {...edges} />
        <div class="hub">
          <span class="mark">svc</span>
          <strong>
            <Untrusted text={data.gateway === '' ? 'gateway' : data.gateway} cut={40} />
          </strong>
          <Numbers counts={graph.total} />
        </div>
        <Edges side="servers" {...edges} />
        <div class="column">
          <h2>Servers</h2>
          <ul class="nodes">
            {graph.servers.map((node) => {
              const server = data.servers.find((one) => one.server === node.key)
              return (
                <Node
                  key={node.key}
                  node={node}
                  {...nodeProps('servers', node)}
                  href={server === undefined ? undefined : hrefOfServer(node.key)}
                >
                  <span class="name">
                    {node.others === undefined ? (
                      <Untrusted text={node.name} cut={60} />
                    ) : (
                      `${node.others} other servers`
                    )}
                    {server !== undefined && <StateBadge server={server} />}
                    {server === undefined && node.others === undefined && (
                      <span class="badge">not in the policy</span>
                    )}
                  </span>
                  <Numbers counts={node} />
                </Node>
              )
            })}
          </ul>
        </div>
      </div>
      <figcaption>
        <span class="graph-key">
          <span class="swatch accent" aria-hidden="true" /> sent
        </span>
        <span class="graph-key">
          <span class="swatch bad" aria-hidden="true" /> denied, ends at the gateway
        </span>
        <span class="graph-key">
          <span class="swatch warn" aria-hidden="true" /> waits for a person
        </span>
        <span class="note">
          Calls of the last 24 hours, and as they happen.
          {graph.undrawn.sent + graph.undrawn.denied > 0 &&
            ` ${whole(graph.undrawn.sent)} sent and ${whole(graph.undrawn.denied)} denied ones are of so many callers and servers that only the sum at the gateway has them.`}
          {data.waitingMore && ` Of those that wait, the newest ${whole(data.waiting.length)} are counted.`}
        </span>
      </figcaption>
    </figure>
  )
}

interface NodeProps {
  readonly node: GraphNode
  readonly href: string | undefined
  readonly isDim: boolean
  readonly on: Readonly<Record<'onMouseEnter' | 'onMouseLeave' | 'onFocusIn' | 'onFocusOut', () => void>>
  readonly children: ComponentChildren
}

function Node({ href, isDim, on, children }: NodeProps): JSX.Element {
  return (
    <li class={isDim ? 'dim' : undefined} {...on}>
      {href === undefined ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the focus shows its edges, as a pointer does
        <span class="node" tabIndex={0}>
          {children}
        </span>
      ) : (
        <a class="node" href={href}>
          {children}
        </a>
      )}
    </li>
  )
}

export function CallerName({ node }: { readonly node: GraphNode }): JSX.Element {
  if (node.others !== undefined) return <>{node.others} other callers</>
  return <Untrusted text={node.name} cut={60} />
}

function hrefOfCaller({ name, tenant = '', others }: GraphNode): string | undefined {
  if (others !== undefined || name === ANONYMOUS) return undefined
  return `/console/log?${new URLSearchParams({ principal: name, tenant })}`
}

export function Numbers({ counts: { sent, denied, failed, waiting } }: { readonly counts: Counts }) {
  if (sent + denied + waiting === 0) return <span class="numbers">no call</span>
  return (
    <span class="numbers">
      <span>{whole(sent)} sent</span>
      {failed > 0 && <span class="warn">{whole(failed)} failed</span>}
      {denied > 0 && <span class="bad">{whole(denied)} denied</span>}
      {waiting > 0 && (
        <span class="warn">
          {whole(waiting)} {waiting === 1 ? 'waits' : 'wait'}
        </span>
      )}
    </span>
  )
}

function whole(count: number): string {
  return count.toLocaleString('en')
}

type Linked = Readonly<Record<Side, ReadonlySet<string>>>

/** The nodes with calls from or to the chosen one. */
function linkedTo({ edges }: Graph, chosen: Chosen | undefined): Linked | undefined {
  if (chosen === undefined) return undefined
  const own = edges.filter((edge) => (chosen.side === 'callers' ? edge.caller : edge.server) === chosen.key)
  const [callers, servers] = [
    new Set(own.map((edge) => edge.caller)),
    new Set(own.map((edge) => edge.server)),
  ]
  ;(chosen.side === 'callers' ? callers : servers).add(chosen.key)
  return { callers, servers }
}

interface EdgesProps extends Pick<GraphProps, 'beats'> {
  readonly side: Side
  readonly graph: Graph
  readonly height: number
  readonly layout: Layout
  readonly linked: Linked | undefined
}

/** The lines between a column and the gateway. They are as wide as the place between them, in a unit of a hundredth. */
function Edges({ side, graph, height, layout, linked, beats }: EdgesProps): JSX.Element {
  const nodes = graph[side]
  const isLeft = side === 'callers'
  const { row, fan, width, shift: gap } = layout
  const step = Math.min(MAX_STEP, fan / Math.max(1, nodes.length))
  const most = Math.max(1, ...nodes.flatMap(({ sent, denied }) => [sent, denied]))
  return (
    <svg
      class="edges"
      viewBox={`0 0 100 ${height}`}
      height={height}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      {nodes.map((node, index) => {
        const { key, sent, denied, waiting } = node
        const outer = (height - nodes.length * row) / 2 + (index + 0.5) * row
        const inner = height / 2 + (index - (nodes.length - 1) / 2) * step
        const isDim = linked !== undefined && !linked[side].has(key)
        const strands = [
          {
            tone: 'accent',
            count: sent,
            end: isLeft ? 100 : 0,
            shift: isLeft && denied + waiting > 0 ? -gap : 0,
          },
          ...(isLeft
            ? [
                { tone: 'bad', count: denied, end: 96, shift: gap },
                { tone: 'warn', count: waiting, end: 96, shift: denied > 0 ? 2 * gap + 1 : gap },
              ]
            : []),
        ].filter(({ count }) => count > 0)
        const beat = beats.get(`${side} ${key}`)
        return (
          <g key={key} class={isDim ? 'dim' : undefined}>
            {strands.length === 0 && (
              <path class="strand unused" d={curve(isLeft, outer, inner, isLeft ? 100 : 0)} />
            )}
            {strands.map(({ tone, count, end, shift }) => (
              <g key={tone}>
                <path
                  class={`strand ${tone}`}
                  stroke-width={widthOf(count, most, width)}
                  d={curve(isLeft, outer + shift, inner + shift, end)}
                />
                {end === 96 && (
                  <path
                    class={`strand stop ${tone}`}
                    d={`M96 ${inner + shift - gap}V${inner + shift + gap}`}
                  />
                )}
              </g>
            ))}
            {beat !== undefined && (
              <path
                key={beat}
                class="strand beat"
                stroke-width={width}
                d={curve(isLeft, outer, inner, isLeft ? 100 : 0)}
              />
            )}
          </g>
        )
      })}
    </svg>
  )
}

/** From the column to the gateway, which is at the right of callers and at the left of servers. */
function curve(isLeft: boolean, outer: number, inner: number, end: number): string {
  return isLeft
    ? `M0 ${outer}C55 ${outer} 45 ${inner} ${end} ${inner}`
    : `M${end} ${inner}C55 ${inner} 45 ${outer} 100 ${outer}`
}

/** By the logarithm, so that few calls are seen beside many. */
function widthOf(count: number, most: number, max: number): string {
  return (1.5 + (max - 1.5) * (Math.log1p(count) / Math.log1p(most))).toFixed(1)
}
