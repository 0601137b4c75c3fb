/**
 * Plain words of 3 to 9 letters, a to z only; none is the beginning of another, so every sort rule gives one
 * order.
 */
export const WORDS: readonly string[] = (
  'acorn almond amber anchor antler apricot arch autumn badge bamboo barrel basket beacon beetle bell bench birch blanket ' +
  'bottle branch bread bridge broom bucket button cabin cactus camel candle canyon carpet castle cedar cellar chalk cherry ' +
  'chimney circle clay clover coast copper coral cotton cradle crystal cup curtain cushion daisy desert dew diamond dolphin ' +
  'dragonfly drum dune eagle echo egg elbow engine envelope fabric falcon feather fence fern fiddle field fig finger flame ' +
  'flute forest fountain fox gallery garden garlic ginger glacier glove granite grape gravel guitar hammer harbor harvest ' +
  'hazel hedge helmet herring hill honey horizon hut ice ink insect island ivory jacket jar jewel jungle kettle kitchen kite ' +
  'ladder lake lantern lemon library lily linen lizard lobster locket magnet maple marble meadow melon meteor mill mirror ' +
  'mitten monsoon mosaic moss mountain mushroom napkin needle nest notebook nut oak oasis ocean olive onion orchard otter owl ' +
  'oyster paddle palace paper parrot pasture pebble pelican pencil pepper pillow planet plum pocket pond puddle pumpkin quarry ' +
  'quilt rabbit raft rain raven reed ribbon river robin rocket root rope rudder saddle sail salmon sand scarf shadow shell ' +
  'silver slope snow spark spider spoon spring squirrel stable statue stone summer sunset swan table tea temple thimble thunder ' +
  'ticket tiger timber toast tower trumpet tulip tunnel turtle umbrella valley velvet village violin volcano wagon walnut ' +
  'water wheat whistle willow window winter wolf wool yarn zebra'
).split(' ')

/** Writes words as a list in a question: "amber, birch, copper". */
export function listWords(words: readonly string[]): string {
  return words.join(', ')
}
